"""Shows the VMs of a job: how many there are, and what they cost an hour together."""

from __future__ import annotations

from typing import cast

from costguard.cli.tables import Answer
from costguard.model.money import ZERO, Money


def several(answer: Answer) -> str:
    """Returns `4 VMs, each `, or `2..8 VMs, each `, before a machine type; "" in a job of one VM."""
    many = answer["spec"].get("nodes", 1)  # servers of an earlier version do not send it
    return f"{many} VMs, each " if many != 1 else ""


def hourly(answer: Answer) -> str | None:
    """Returns what the job's VMs cost an hour, in dollars; None where none is there, or a price is not known."""
    job, place = answer["job"], answer["job"]["place"]
    if place is None or job["settled_at"] is not None:
        return None
    if not several(answer):
        return cast("str | None", place["rate_per_hour"])
    rates = [attempt["rate_per_hour"] for attempt in answer["attempts"] if attempt["outcome"] is None]
    if None in rates or not rates:
        return None
    return str(sum((Money.of(one) for one in rates), ZERO).dollars)
