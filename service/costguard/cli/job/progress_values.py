"""The progress of a training in `costguard job`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from costguard.cli.tables import Answer, dollars
from costguard.model.duration import span_text

_MOST_METRICS = 6


def progress_values(progress: Answer | None) -> Iterator[tuple[str, str]]:
    """Yields the values; none where nothing was read of it, and from servers of an earlier version."""
    if progress is None:
        return
    parts = [_position(progress)] if progress["done"] is not None else []
    if progress["per_second"] is not None:
        parts.append(speed_text(progress["per_second"], progress["unit"]))
    if progress["loss"] is not None:
        parts.append(f"loss {progress['loss']}")
    parts += [f"{name} {value}" for name, value in list(progress["metrics"].items())[:_MOST_METRICS]]
    yield "progress", ", ".join(parts) or progress["phase"]
    if (left := progress["left"]) is not None:
        yield "left", _left(left)


def speed_text(per_second: float, unit: str | None) -> str:
    """`2.5 steps a second`, or by the hour where that is easier to read."""
    if per_second >= 0.1:
        return f"{per_second:,.3g} {unit}s a second"
    return f"{per_second * 3600:,.3g} {unit}s an hour"


def _position(progress: Answer) -> str:
    done, total, unit = progress["done"], progress["total"], progress["unit"]
    if total is None:
        return f"{unit} {done:,.10g}"
    share = f" ({100 * done / total:.0f} %)" if total else ""
    return f"{unit} {done:,.10g} of {total:,.10g}{share}"


def _left(left: Answer) -> str:
    """`about 3 h 25 min of running (3 h 10 min to 3 h 50 min), $1.25 ($1.10 to $1.40)`."""
    low, likely, high = (span_text(timedelta(seconds=left[f"seconds_{name}"])) for name in ("low", "likely", "high"))
    text = f"about {likely} of running ({low} to {high})"
    if left["cost_likely"] is None:
        return f"{text}, at a price that is not known"
    costs = [dollars(left[f"cost_{name}"]) for name in ("likely", "low", "high")]
    return f"{text}, {costs[0]} ({costs[1]} to {costs[2]})"
