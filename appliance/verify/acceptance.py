"""What speculation did: the arithmetic, pure.

- acceptance length = 1 + accepted / steps: tokens emitted per verify step, the target's own token included.
- draft acceptance rate = accepted / drafted.
- rate at position i = accepted at position i / steps (joint: position i is accepted only with all before it).
The definitions of vLLM's spec-decode metrics (`num_drafts`, `num_draft_tokens`, `num_accepted_tokens`,
`num_accepted_tokens_per_pos`) and of Leviathan et al., arXiv 2211.17192. Other tools count otherwise: compare
only like with like. A count that an engine does not keep is None, and so is whatever needs it: unknown, not zero.
"""

from pydantic import computed_field

from appliance.catalog.stack import Strict
from appliance.supervise.status import Counters


def acceptance_length(accepted: int | None, steps: int | None) -> float | None:
    """Tokens per verify step; None where either count is unknown or no step was made."""
    return 1 + accepted / steps if accepted is not None and steps else None


def draft_acceptance_rate(accepted: int | None, drafted: int | None) -> float | None:
    """The share of drafted tokens that the target took; None where unknown or nothing was drafted."""
    return accepted / drafted if accepted is not None and drafted else None


def position_rates(per_position: tuple[int, ...] | None, steps: int | None) -> tuple[float, ...] | None:
    """Joint rate of each draft position, the first first; None where unknown."""
    return tuple(count / steps for count in per_position) if per_position is not None and steps else None


class Acceptance(Strict):
    """Counts over some requests, and the rates they make. `steps` are verify steps that had a draft."""

    generated: int | None = None
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    accepted_per_position: tuple[int, ...] | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def acceptance_length(self) -> float | None:
        return acceptance_length(self.accepted, self.steps)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def draft_acceptance_rate(self) -> float | None:
        return draft_acceptance_rate(self.accepted, self.drafted)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def position_rates(self) -> tuple[float, ...] | None:
        return position_rates(self.accepted_per_position, self.steps)

    @property
    def speculated(self) -> bool | None:
        """Whether anything was drafted; None where nobody counts that. Steps of which no draft is known and nothing
        was accepted may be those of a target alone."""
        if self.drafted is not None or self.accepted:
            return bool(self.drafted or self.accepted)
        return bool(self.steps) if self.accepted is None and self.steps is not None else None


def between(before: Counters, after: Counters) -> Acceptance | None:
    """What happened between two readings of one engine's totals.

    None where they cannot be subtracted: the engine was started anew, or a total went backwards.
    """
    if before.engine_starts != after.engine_starts:
        return None
    names = ("generated", "steps", "drafted", "accepted")
    counts = {name: _grown(getattr(before, name), getattr(after, name)) for name in names}
    positions = _positions(before.accepted_per_position, after.accepted_per_position)
    if any(count is not None and count < 0 for count in (*counts.values(), *(positions or ()))):
        return None
    return Acceptance(**counts, accepted_per_position=positions)


def _grown(before: int | None, after: int | None) -> int | None:
    """A series that only appears with its first count started at 0."""
    return None if after is None else after - (before or 0)


def _positions(before: tuple[int, ...] | None, after: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if after is None:
        return None
    missing = (0,) * (len(after) - len(before or ()))
    return tuple(late - early for late, early in zip(after, (before or ()) + missing, strict=False))
