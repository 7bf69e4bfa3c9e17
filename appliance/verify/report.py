"""What verify found."""

from typing import Any, Literal

from pydantic import computed_field

from appliance.catalog.stack import Strict
from appliance.verify.acceptance import Acceptance

Result = Literal["passed", "failed", "not offered", "unknown"]


class Check(Strict):
    """One check. `detail` is what was seen; `why` and `fix` are there where it failed or is unknown."""

    name: str
    outcome: Result
    detail: str = ""
    why: str = ""
    fix: str = ""


class VerifyReport(Strict):
    """All checks of one endpoint. What is unknown or not offered is no failure."""

    model: str
    checks: tuple[Check, ...]
    acceptance: Acceptance | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ok(self) -> bool:
        return not self.failed

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.outcome == "failed")

    def complaint(self) -> tuple[str, str, str]:
        """What failed, why, what to do; for a report that is not ok."""
        names = ", ".join(check.name for check in self.failed)
        return f"{self.model} does not answer well: {names}", self.failed[0].why, self.failed[0].fix

    def as_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return self.model_dump(mode="json")
