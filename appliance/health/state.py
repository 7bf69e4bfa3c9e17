"""What an observation means: absent, starting, ready, wedged or exited."""

from dataclasses import dataclass

from appliance.runtime.base import Observed
from appliance.supervise import status

ABSENT = "absent"
SILENT_S = 30.0


@dataclass(frozen=True)
class Health:
    """A stack's state, its phase in words, and why where it is not well."""

    state: str
    phase: str = ""
    reason: str = ""


def classify(observed: Observed, now: float) -> Health:
    """The health of what was observed at the wall-clock time `now`. Pure."""
    if not observed.exists:
        return Health(ABSENT)
    said = observed.status
    if said is not None and said.state in (status.EXITED, status.STOPPED):
        return Health(said.state, said.phase, said.exit.reason if said.exit else "")
    if not observed.alive:
        code = "" if observed.exit_code is None else f" with code {observed.exit_code}"
        return Health(status.EXITED, "", f"its supervisor ended{code} and said nothing more")
    if said is None:
        return Health(status.STARTING, "starting")
    if now - said.updated > SILENT_S:
        return Health(
            status.WEDGED,
            said.phase,
            f"its supervisor has not reported for {now - said.updated:.0f} s; see that its disk is not full",
        )
    return Health(
        said.state, said.phase, said.exit.reason if said.exit and said.state == status.WEDGED else ""
    )
