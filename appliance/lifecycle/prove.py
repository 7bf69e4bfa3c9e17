"""A running release held against its promises, and against itself without speculation."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from appliance import engines
from appliance.core.errors import UsageFault
from appliance.lifecycle.baseline import baseline
from appliance.lifecycle.managed import Managed, client
from appliance.stack.release import Release
from appliance.verify.acceptance import Acceptance, between
from appliance.verify.compare import Comparison, collect, compare
from appliance.verify.report import VerifyReport
from appliance.verify.speculation import PATIENCE_S, newer
from appliance.verify.verify import verify


@dataclass(frozen=True)
class Held:
    """A comparison with the baseline, and what speculation did during it."""

    comparison: Comparison
    acceptance: Acceptance | None


def check(stack: Managed, release: Release, *, quick: bool) -> VerifyReport:
    """Verify what the release's preset declares."""
    promised = release.stack()
    with client(release) as asking:
        return verify(
            asking,
            promised.offers,
            expects_speculation=promised.draft.method != "none",
            read_counters=stack.counters,
            quick=quick,
        )


def require_draft(stack: Managed, release: Release) -> None:
    """Raises UsageFault for a stack that has nothing to compare."""
    if release.stack().draft.method == "none":
        raise UsageFault(
            f"{stack.folder.name} does not speculate",
            "it is its own baseline",
            "name a stack with a draft, or bring one up: spark-spec up demo",
        )
    if engines.get(release.stack().engine.name).gpu:
        raise UsageFault(
            f"{stack.folder.name} cannot be compared beside itself",
            "its target would be loaded a second time, into the same GPU's memory",
            "serve it without speculation in its place: spark-spec up "
            f"{release.stack().preset} --no-spec --name baseline --replace",
        )


def against_baseline(stack: Managed, release: Release) -> Held:
    """The same greedy prompts with speculation and, on a twin without a draft, without it."""
    before = stack.counters()
    with client(release) as asking:
        speculated = collect(asking, on_prompt=_counted(stack, "with speculation"))
    after = newer(stack.counters, time.time(), PATIENCE_S)
    with baseline(stack, release) as twin, client(twin) as asking:
        plain = collect(asking, margins=True, on_prompt=_counted(stack, "without speculation"))
    return Held(compare(speculated, plain), between(before, after) if before and after else None)


def _counted(stack: Managed, how: str) -> Callable[[int, int], None]:
    return lambda number, total: stack.talk.phase(f"asking {how}, prompt {number} of {total}")
