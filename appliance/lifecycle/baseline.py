"""The same stack without speculation, beside it for a while: what a comparison is held against."""

import contextlib
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from appliance.catalog.stack import Draft, Stack
from appliance.core.errors import MachineFault
from appliance.lifecycle.managed import Managed
from appliance.lifecycle.prepare import publish
from appliance.machine.facts import Machine, this_machine
from appliance.stack.release import Release, StackFolder
from appliance.stack.render import render


@contextlib.contextmanager
def baseline(stack: Managed, release: Release) -> Iterator[Release]:
    """The release's twin without a draft, ready on a free port; gone afterwards, whatever happens.

    Raises what a start raises.
    """
    twin = twin_of(stack)
    with twin.folder.lock():
        _remove(twin)
        try:
            rendered = render(_without_draft(release), _machine(release, twin.folder.home), twin.folder.name)
            started = publish(twin, rendered)
            twin.start(started)
            twin.wait(started)
            yield started
        finally:
            _remove(twin)


def twin_of(stack: Managed) -> Managed:
    """The baseline's own stack, which need not exist: of the same name, in a state folder of its own, so that it
    is never one of the user's."""
    return Managed(StackFolder(stack.folder.home / "baselines", stack.folder.name), stack.talk)


def clear(stack: Managed) -> None:
    """Remove the twin that a killed comparison left; one that is at work is left alone."""
    twin = twin_of(stack)
    if not twin.folder.exists():
        return
    try:
        with twin.folder.lock():
            stack.talk.say(
                f"removing the baseline of {twin.folder.name}, left by a comparison that was killed"
            )
            _remove(twin)
    except MachineFault as error:
        stack.talk.say(f"{error.what}: {error.why}")


def _remove(twin: Managed) -> None:
    """Stop it and forget it; its folder goes but for the lock, which is held."""
    twin.stop()
    for path in twin.folder.folder.iterdir():
        if path.name != "lock":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _without_draft(release: Release) -> Stack:
    stack = release.stack()
    serve = stack.serve.model_copy(update={"port": _free_port()})
    return stack.model_copy(update={"draft": Draft(), "serve": serve})


def _machine(release: Release, state: Path) -> Machine:
    """The machine as it was when the release was rendered: the same models, the same way to the GPU."""
    was = release.manifest["machine"]
    return this_machine(release.runtime, was["folders"], state, was["gpu"], was["revisions"])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
