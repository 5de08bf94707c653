"""Prints the rounds of a job of several VMs for `costguard job`."""

from __future__ import annotations

from datetime import timedelta

from rich.console import Console

from costguard.cli.tables import Answer, Column, dollars, moment, say, show_table, when
from costguard.model.duration import span_text

_COLUMNS = (
    Column("Round", "number", right=True),
    Column("VMs", "vms", right=True, spare=1),
    Column("Began (UTC)", "began"),
    Column("Worked", "worked", right=True),
    Column("Steps", "steps", spare=3),
    Column("Lost", "lost", right=True, spare=2),
    Column("How it ended", "ending", prose=True),
)


def show_rounds(console: Console, answer: Answer) -> None:
    """Prints a row for each round; nothing of a job of one VM."""
    rounds = answer.get("rounds", ())  # servers of an earlier version do not send it
    if rounds:
        console.print()
        say(console, "All of its VMs run the command together in each round, from one checkpoint:")
        show_table(console, _COLUMNS, [_row(one, answer["as_of"]) for one in rounds])


def _row(one: Answer, as_of: str) -> Answer:
    began, ended = one["started_at"], one["ended_at"]
    worked = moment(ended or as_of) - moment(began) if began else timedelta()
    lost, cost = one["lost_seconds"], one["lost_cost"]
    return {
        "number": one["number"],
        "vms": "-" if one.get("vms") is None else one["vms"],
        "began": when(began) if began else "-",
        "worked": span_text(max(timedelta(), worked)) if began else "-",
        "steps": steps_text(one),
        "lost": "-" if lost is None else f"{span_text(timedelta(seconds=lost))}{f' ({dollars(cost)})' if cost else ''}",
        "ending": _ending(one),
    }


def steps_text(run: Answer) -> str:
    """`12,000 to 41,200`, of an attempt or a round: from the checkpoint that it resumed from."""
    if run["step"] is None:
        return "-"
    since = f"{run['resume_step']:,}" if run["resume_step"] is not None else "?" if run["resume_from"] else "0"
    return f"{since} to {run['step']:,}"


def _ending(one: Answer) -> str:
    if one["ended_at"] is None:
        return "goes on"
    outcome = (one["outcome"] or "ended").replace("_", " ")
    return f"{outcome}: {one['reason']}" if one["reason"] else outcome
