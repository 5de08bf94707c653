"""Zones' scores, and how long recoveries took."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from rich.console import Console

from costguard.cli.format import age, count, dollars, moment, when
from costguard.cli.tables import Row, cell, say, show_table

_BAR = 30  # characters
_WHAT = {
    "noticed": "From the preemption until it was noticed",
    "requested": "From the preemption until the next VM was asked for",
    "resumed": "From the preemption until the command ran again",
}
_FIRST = {
    "notice": "the VM's own notice",
    "exit": "its agent's last word",
    "operation": "Google's operations",
    "status": "the VM's status",
    "silence": "silence",
}


def show_places(console: Console, answer: dict[str, Any]) -> None:
    rows: list[Row] = [_place(each, answer["as_of"]) for each in answer["places"]]
    if not rows:
        say(console, "No zone is known: no preset has a section launch, and nothing was launched yet.")
        return
    right = ("Stockouts", "Preemptions")
    show_table(console, tuple(rows[0]), rows, right=right, prose=("Last",), spare=("Presets", "Last"))
    halves = [age(timedelta(seconds=answer[f"{what}_half_life_seconds"])) for what in ("stockout", "preemption")]
    say(console, f"A stockout counts half after {halves[0]}, a preemption after {halves[1]}.", "dim")


def show_recoveries(console: Console, answer: dict[str, Any]) -> None:
    total = answer["interruptions_total"]
    since = when(answer["since"])
    if not total:
        say(console, f"No job was interrupted since {since} UTC.")
        return
    ways = ", ".join(f"{number} {outcome.replace('_', ' ')}" for outcome, number in answer["by_outcome"].items())
    say(console, f"{count(total, 'interruption')} since {since} UTC: {ways}.", "bold")
    firsts = ", ".join(f"{_FIRST.get(each, each)} {number}" for each, number in answer["noticed_first"].items())
    say(console, f"What told of it first: {firsts}.")
    lost = f"{age(timedelta(seconds=answer['lost_seconds']))} of work ({dollars(answer['lost_cost'])})"
    say(console, f"Lost: {lost}; started from zero: {count(answer['from_zero'], 'time')}.")
    for span in answer["spans"]:
        _span(console, span)


def _span(console: Console, of: dict[str, Any]) -> None:
    console.print()
    if not of["count"]:
        say(console, f"{_WHAT.get(of['what'], of['what'])}: not measured yet.")
        return
    median, p90, longest = (_seconds(of[name]) for name in ("median_seconds", "p90_seconds", "longest_seconds"))
    say(console, f"{_WHAT.get(of['what'], of['what'])}: median {median}, 9 of 10 within {p90}, longest {longest}")
    most = max(bucket["count"] for bucket in of["buckets"]) or 1
    rows: list[Row] = [
        {
            "": cell("longer" if bucket["up_to_seconds"] is None else f"to {_seconds(bucket['up_to_seconds'])}"),
            " ": cell("█" * max(round(_BAR * bucket["count"] / most), 1 if bucket["count"] else 0)),
            "  ": cell(bucket["count"] or ""),
        }
        for bucket in of["buckets"]
    ]
    show_table(console, tuple(rows[0]), rows, right=("", "  "))


def _place(of: dict[str, Any], as_of: str) -> Row:
    return {
        "Zone": cell(of["zone"]),
        "GPU": cell(of["gpu_type"] or "none"),
        "Model": cell("Spot" if of["provisioning_model"] == "spot" else "on-demand"),
        "Stockouts": cell(_score(of["stockouts"]), "yellow" if Decimal(of["stockouts"]) >= 1 else ""),
        "Preemptions": cell(_score(of["preemptions"]), "yellow" if Decimal(of["preemptions"]) >= 1 else ""),
        "Presets": cell(", ".join(of["presets"])),
        "Last": cell(_last(of["events"], as_of)),
    }


def _score(text: str) -> str:
    return "-" if not Decimal(text) else f"{Decimal(text):.2f}"


def _last(events: list[dict[str, Any]], as_of: str) -> str:
    if not events:
        return "-"
    newest = events[0]
    return f"{newest['outcome'].replace('_', ' ')} {age(moment(as_of) - moment(newest['at']))} ago"


def _seconds(text: str | int) -> str:
    """Under ten seconds with a place: a notice is a matter of fractions."""
    exact = Decimal(text)
    return f"{exact:.1f} s" if exact < 10 and exact != int(exact) else age(timedelta(seconds=int(exact)))
