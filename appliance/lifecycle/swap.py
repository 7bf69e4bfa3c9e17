"""One release in another's place; and back, where the new one does not do."""

from collections.abc import Callable
from typing import TypeVar

from appliance.core.errors import NotGoodEnough, SparkSpecError
from appliance.core.interrupts import shielded
from appliance.lifecycle.managed import Managed
from appliance.stack.release import Release

ResultT = TypeVar("ResultT")


def swap(stack: Managed, release: Release, other: Managed | None, prove: Callable[[], ResultT]) -> ResultT:
    """Stop what runs, start the release, prove it; on any failure, and on Ctrl-C, put back what ran.

    `other` is another stack that has to go for it. What does run, but not well enough, stays where nothing ran
    before. Raises what stop, start and `prove` raise.
    """
    before = _running(stack)
    displaced = other.current() if other else None
    try:
        stack.stop()
        if other is not None:
            stack.talk.say(f"taking down {other.folder.name}, which held the port")
            other.stop()
            other.audit("down", replaced_by=stack.folder.name)
        stack.start(release)
        return prove()
    except BaseException as error:
        if isinstance(error, NotGoodEnough) and before is None and displaced is None:
            stack.talk.say(
                f"it runs on, as nothing ran before; stop it with: spark-spec down {stack.folder.name}"
            )
        else:
            _put_back(stack, release, before, other, displaced)
        stack.audit("failed", release=release.number, error=str(error) or type(error).__name__)
        raise


def _running(stack: Managed) -> Release | None:
    """The release that runs now, if one does and can be read."""
    if not stack.observe().alive:
        return None
    try:
        return stack.current()
    except SparkSpecError:
        return None


def _put_back(
    stack: Managed, failed: Release, before: Release | None, other: Managed | None, displaced: Release | None
) -> None:
    """Stop the failed release, start the last good one where one ran. Its own failure is said, not raised:
    the first error is the one to report. An interrupt is heeded only while it is waited for."""
    try:
        with shielded(lambda: stack.talk.say("putting back what ran before; a moment")):
            stack.stop()
            back = _last_good(stack, failed, before)
            if back is not None:
                stack.talk.say(f"putting release {back.number:04d} back")
                stack.start(back)
            if other is not None and displaced is not None:
                stack.talk.say(f"putting {other.folder.name} back")
                other.start(displaced)
        if back is not None:
            stack.wait(back)
        if other is not None and displaced is not None:
            other.wait(displaced)
    except (SparkSpecError, OSError) as error:
        stack.talk.say(f"could not put it back: {error}")
    except KeyboardInterrupt:
        stack.talk.say("it was started again; `spark-spec status` says when it is ready")


def _last_good(stack: Managed, failed: Release, before: Release | None) -> Release | None:
    """What to go back to where something ran: the newest good release that is intact, else what ran."""
    if before is None:
        return None
    whole = {release.number: release for release in stack.folder.releases() if release.intact()}
    newest_first = [*reversed(stack.folder.state().good), before.number]
    return next((whole[n] for n in newest_first if n in whole and n != failed.number), None)
