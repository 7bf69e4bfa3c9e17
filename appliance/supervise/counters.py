"""The engine's counters in our own words. Pure: text in, a reading out; one parser a format.

Standard library only: this file also runs inside every engine image.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.supervise.plan import CounterTable

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Reading:
    """Totals since the engine started, as one reading shows them. None: the engine does not count it.

    `progress` is anything that moves while the engine works, `active` the requests in flight now; the
    others are as in `status.Counters`.
    """

    generated: int | None = None
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    accepted_per_position: tuple[int, ...] | None = None
    progress: int | None = None
    active: int | None = None


Parser = Callable[[str, Mapping[str, str]], Reading]


def prometheus(text: str, names: Mapping[str, str]) -> Reading:
    """Read Prometheus' text exposition format. Lines that are not samples are skipped.

    A name with several label sets is summed over them; `accepted_per_position` is ordered by the label
    `position`, and summed over the others.
    """
    totals: dict[str, int] = {}
    positions: dict[int, int] = {}
    per_position = names.get("accepted_per_position")
    for name, labels, value in _samples(text):
        if name != per_position:
            totals[name] = totals.get(name, 0) + value
        elif labels.get("position", "").isdecimal():
            position = int(labels["position"])
            positions[position] = positions.get(position, 0) + value

    def total(ours: str) -> int | None:
        return totals.get(names.get(ours, ""))

    return Reading(
        generated=total("generated"),
        steps=total("steps"),
        drafted=total("drafted"),
        accepted=total("accepted") if "accepted" in names else _from_tokens(total),
        accepted_per_position=tuple(positions[i] for i in sorted(positions)) if positions else None,
        progress=total("progress"),
        active=total("active"),
    )


def _from_tokens(total: Callable[[str], int | None]) -> int | None:
    """Accepted tokens of an engine that does not count them, but its answers: a token of an answer comes from its
    prompt's own pass, from a verify step, or from a draft."""
    generated, answers, steps = total("generated"), total("answers"), total("steps")
    if generated is None or answers is None or steps is None:
        return None
    return max(0, generated - answers - steps)


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], int]]:
    for line in text.splitlines():
        found = _SAMPLE.fullmatch(line)
        if not found:
            continue
        name, labels, value = found.groups()
        try:
            yield name, dict(_LABEL.findall(labels or "")), int(float(value))
        except (ValueError, OverflowError):  # not a number, NaN, +Inf
            continue


def iterations(text: str, names: Mapping[str, str]) -> Reading:
    """Read a JSON list of iterations' statistics, as trtllm-serve's /metrics gives it: what happened since the
    last reading, which emptied it. A name is a dotted path into one iteration.

    An engine whose drafts are all counted as nought does not count them (TensorRT-LLM before #17082).
    """
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return Reading()
    rows = [row for row in told if isinstance(row, dict)] if isinstance(told, list) else []

    def total(ours: str) -> int | None:
        found = [value for row in rows if (value := _at(row, names.get(ours, ""))) is not None]
        return sum(found) or None

    return Reading(
        generated=total("generated"),
        steps=total("steps"),
        drafted=(drafted := total("drafted")),
        accepted=(total("accepted") or 0) if drafted else None,
        progress=len(rows),
        active=_at(rows[-1], names.get("active", "")) if rows else 0,
    )


def _at(row: dict[str, Any], path: str) -> int | None:
    """The number at a dotted path; None where there is none."""
    value: Any = row
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return int(value)


def add(total: Reading, more: Reading) -> Reading:
    """Two readings of which each tells only what is new. `active` is the later one's."""

    def both(one: int | None, other: int | None) -> int | None:
        return None if one is None and other is None else (one or 0) + (other or 0)

    return Reading(
        generated=both(total.generated, more.generated),
        steps=both(total.steps, more.steps),
        drafted=both(total.drafted, more.drafted),
        accepted=both(total.accepted, more.accepted),
        progress=both(total.progress, more.progress),
        active=more.active,
    )


FORMATS: dict[str, Parser] = {"prometheus": prometheus, "iterations": iterations}
EMPTIED = ("iterations",)  # formats whose reading empties the engine's own count


def read(table: CounterTable, text: str) -> Reading:
    """One reading of an engine's counters. Raises ValueError where the format is not known."""
    if table.format not in FORMATS:
        raise ValueError(f"counter format {table.format!r} is not one of: {', '.join(sorted(FORMATS))}")
    return FORMATS[table.format](text, table.names)
