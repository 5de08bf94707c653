"""`costguard lineage`, as the terminal shows it."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from costguard.cli.job.lineage import show_lineage


def job(job_id: str, depth: int, cost: str, **given: Any) -> dict[str, Any]:
    amount = {"amount": cost, "complete": True}
    values = {"id": job_id, "title": job_id, "state": "succeeded", "owner": "ada@lab.example", "depth": depth}
    return {**values, "origins": [], "cost": amount, "with_below": amount, **given}


ORIGIN = {"address": "gs://lab/base/step-9", "uses": "input", "parent": "base"}
ANSWER = {
    "ancestors": [job("base", -1, "100")],
    "job": job("tune1", 0, "20", origins=[ORIGIN]),
    "descendants": [job("tune3", 1, "5"), job("tune4", 2, "1")],
    "upward": {"amount": "120", "complete": True},
    "downward": {"amount": "26", "complete": False},
    "total": {"amount": "126", "complete": False},
    "unknown": [],
    "is_whole": True,
}


def shown(**given: Any) -> str:
    console = Console(width=200, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        show_lineage(console, {**ANSWER, **given})
    return captured.get()


def test_the_tree_is_shown_with_its_sums() -> None:
    """A job that started from another hangs under its parent, and a sum that is not whole says so."""
    text = shown()
    assert "tune1 (this job)" in text
    assert "└ tune3" in text
    assert "  └ tune4" in text
    assert "input gs://lab/base/step-9" in text
    assert "$120.00" in text
    assert "$26.00 + ?" in text
    assert "all 4 jobs" in text


def test_unknown_and_missing_jobs_are_said() -> None:
    """A job alone, a checkpoint of no known job, and a lineage that is cut."""
    alone = shown(ancestors=[], descendants=[])
    assert "It started from no other job, and no other job has started from it." in alone
    assert "UNKNOWN: gs://lab/x was there before" in shown(
        unknown=[{**ORIGIN, "address": "gs://lab/x", "parent": None}]
    )
    assert "There are more jobs than are shown here" in shown(is_whole=False)
