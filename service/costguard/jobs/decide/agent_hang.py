"""A command's hang as its agent reports it: read from a heartbeat, and stored with the attempt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from math import isfinite

from pydantic import TypeAdapter

from costguard.model.hang import KINDS, PHASES, Hang

_HANG = TypeAdapter(Hang)
_MOST_WAITS = 8
_MOST_WAIT = 100  # characters
_MOST_STACKS = 8 << 10
_MOST_SECONDS = 1e8
_MOST_STEP = 2**63 - 1


def reported(before: Hang | None, fields: Mapping[str, object], moment: Callable[[object], datetime]) -> Hang | None:
    """Reads a heartbeat's hang; None where it makes progress. A hang that goes on began when it was first reported."""
    seen = fields.get("hang")
    if not isinstance(seen, Mapping):
        return None
    kind, phase, bound = seen.get("kind"), seen.get("phase"), _span(seen.get("bound_s"))
    if kind not in KINDS or phase not in PHASES or bound is None:
        return None
    step, waits, stacks = seen.get("step"), seen.get("waits"), seen.get("stacks")
    return Hang(
        since=moment(seen.get("since")) if before is None else before.since,
        kind=str(kind),
        phase=str(phase),
        bound=bound,
        step=step if type(step) is int and 0 <= step <= _MOST_STEP else None,
        usual=_span(seen.get("usual_s")),
        longest=_span(seen.get("longest_s")),
        cores=_figure(seen.get("cores")),
        gpu=_figure(seen.get("gpu")),
        is_writing=seen["is_writing"] if isinstance(seen.get("is_writing"), bool) else None,
        waits=tuple(one[:_MOST_WAIT] for one in waits[:_MOST_WAITS] if isinstance(one, str))
        if isinstance(waits, list)
        else (),
        stacks=stacks[:_MOST_STACKS] if isinstance(stacks, str) else "",
    )


def stored(hang: Hang | None) -> object:
    """Converts a hang for its column."""
    return None if hang is None else _HANG.dump_python(hang, mode="json")


def of_column(value: object) -> Hang | None:
    return None if value is None else _HANG.validate_python(value)


def _span(value: object) -> timedelta | None:
    number = _figure(value)
    return None if number is None or number >= _MOST_SECONDS else timedelta(seconds=round(number, 3))


def _figure(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and isfinite(value) and value >= 0 else None  # type: ignore[operator,arg-type]
