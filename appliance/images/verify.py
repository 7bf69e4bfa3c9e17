"""Is an image what was built or pulled here under its name?"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appliance.core.errors import MachineFault, Mismatch, NotGoodEnough, SparkSpecError
from appliance.images.identity import Identity, differences
from appliance.images.records import identity_here, recorded
from appliance.images.versions import NAMESPACE, versions
from appliance.machine.command import CommandFailed, run

State = Literal["same", "differs", "other platform", "not recorded", "not here"]
OWN_BASE = "own-base"  # in a tag: the base was named by who built, and says nothing of itself


@dataclass(frozen=True)
class Verdict:
    """What was found of an image, with each difference from its record and between its labels and its name."""

    reference: str
    state: State
    differences: tuple[str, ...] = ()


def verify(reference: str, platform: str, state: Path) -> Verdict:
    """Compare an image of this engine with its record in the state folder. Raises MachineFault (docker)."""
    found = identity_here(reference)
    if found is None:
        return Verdict(reference, "not here")
    if found.platform != platform:
        return Verdict(reference, "other platform", (f"platform: {found.platform}, expected {platform}",))
    expected = recorded(state, reference, platform)
    told = (*(differences(expected, found) if expected else ()), *misnamed(reference, found))
    return Verdict(reference, "differs" if told else "same" if expected else "not recorded", told)


def fault(verdicts: Iterable[Verdict]) -> SparkSpecError | None:
    """The error of the worst verdict; None where all are the same.

    A missing record is NotGoodEnough: nothing is known to be wrong, and yet nobody may take it for a check that passed.
    """
    by_state: dict[State, list[Verdict]] = {}
    for one in verdicts:
        by_state.setdefault(one.state, []).append(one)
    if bad := by_state.get("differs"):
        return Mismatch(
            f"{_names(bad)} not what was built or pulled here", _told(bad),
            f"do not run it; remove it (docker rmi {bad[0].reference}) and get it anew: spark-spec images build PRESET",
        )  # fmt: skip
    if other := by_state.get("other platform"):
        return MachineFault(
            f"{_names(other)} for another platform", _told(other),
            f"docker rmi {other[0].reference} and build it anew, or name the platform that is meant: --platform",
        )  # fmt: skip
    if absent := by_state.get("not here"):
        return MachineFault(
            f"{_names(absent)} not here", "docker does not know it", "spark-spec images build PRESET gets it"
        )
    if unknown := by_state.get("not recorded"):
        return NotGoodEnough(
            f"{_names(unknown)} not recorded: there is nothing to compare with",
            "an image is recorded when spark-spec builds, pulls or imports it; this one came otherwise",
            f"docker rmi {unknown[0].reference}, then get it anew: spark-spec images build PRESET",
        )
    return None


def misnamed(reference: str, found: Identity) -> tuple[str, ...]:
    """Where the labels of an image of ours say something else than its name, whose form `own` makes."""
    repository, _, tag = reference.rpartition(":")
    space, _, image = repository.rpartition("/")
    if space != NAMESPACE:
        return ()
    version, base = (
        found.settings.get(f"label org.opencontainers.image.{name}", "") for name in ("version", "base.name")
    )
    short = tag.removeprefix(f"{version}-").rpartition("-")[0]
    told = []
    if (label := found.settings.get("label spark-spec.image", "")) != image:
        told.append(f"label spark-spec.image: {label or 'absent'}, its name says {image}")
    if not version or not tag.startswith(f"{version}-"):
        told.append(f"label org.opencontainers.image.version: {version or 'absent'}, its name says {tag}")
    elif short != OWN_BASE and short not in base:
        told.append(f"label org.opencontainers.image.base.name: {base or 'absent'}, its name says {short}")
    return tuple(told)


def own_here() -> tuple[str, ...]:
    """The references of all images of ours on this engine. Raises MachineFault."""
    argv = [
        "docker",
        "image",
        "ls",
        "--format",
        "{{.Repository}}:{{.Tag}}",
        "--filter",
        "label=spark-spec.image",
    ]
    try:
        lines = run(argv, quiet_s=30, each=lambda _: None, leash=False)
    except CommandFailed as error:
        raise MachineFault(
            "docker could not list its images", error.words(2), "see that `docker info` works"
        ) from None
    ours = {f"{NAMESPACE}/{name}" for name in versions().images}
    return tuple(sorted(line for line in lines if line.rpartition(":")[0] in ours and "<none>" not in line))


def _names(verdicts: list[Verdict]) -> str:
    return f"the image {verdicts[0].reference} is" if len(verdicts) == 1 else f"{len(verdicts)} images are"


def _told(verdicts: list[Verdict]) -> str:
    return "; ".join(
        one if len(verdicts) == 1 else f"{verdict.reference}: {one}"
        for verdict in verdicts
        for one in verdict.differences
    )
