"""`costguard places` and `costguard recoveries`: how zones and preemptions have treated jobs."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from costguard.cli.job.page import MODELS
from costguard.cli.options import DEFAULT_URL, AsJson, Url
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, cell, dollars, moment, render, say, show_table, when
from costguard.model.duration import span_text
from costguard.model.words import count_text

_BAR_LENGTH = 30  # characters
_SPANS = {
    "noticed": "From the preemption until it was detected",
    "requested": "From the preemption until the next VM was requested",
    "resumed": "From the preemption until the command ran again",
}
_SIGNALS = {
    "notice": "the VM's preemption notice",
    "exit": "its agent's last report",
    "operation": "Google's operations",
    "status": "the VM's status",
    "silence": "silence",
}


def register(app: typer.Typer) -> None:
    app.command("places", epilog="Example:  costguard places --json")(places)
    app.command("recoveries", epilog="Example:  costguard recoveries --days 7")(recoveries)


def places(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """List zones with their recent stockouts and preemptions, which count less as they age."""
    render(ServerClient(url).get("places"), as_json, show_places)


def recoveries(
    days: Annotated[
        int, typer.Option("--days", metavar="DAYS", min=1, max=3650, help="The number of days to look back.")
    ] = 30,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show the time that jobs took to run again after they lost a VM, and how each loss was detected."""
    render(ServerClient(url).get("recoveries", days=days), as_json, show_recoveries)


def show_places(console: Console, answer: Answer) -> None:
    if not answer["places"]:
        say(console, "No zone is known: no preset has a section launch, and nothing was launched yet.")
        return
    columns = (
        Column("Zone", "zone"),
        Column("GPU", lambda place: place["gpu_type"] or "none"),
        Column("Model", lambda place: MODELS.get(place["provisioning_model"], "on-demand")),
        Column("Stockouts", lambda place: _score(place["stockouts"]), right=True),
        Column("Preemptions", lambda place: _score(place["preemptions"]), right=True),
        Column("Presets", lambda place: ", ".join(place["presets"]), spare=1),
        Column("Last", lambda place: _last(place["events"], answer["as_of"]), prose=True, spare=2),
    )
    show_table(console, columns, answer["places"])
    halves = [span_text(timedelta(seconds=answer[f"{what}_half_life_seconds"])) for what in ("stockout", "preemption")]
    say(console, f"A stockout counts half after {halves[0]}, a preemption after {halves[1]}.", "dim")


def _score(text: str) -> Text:
    score = Decimal(text)
    return cell(f"{score:.2f}" if score else "-", "yellow" if score >= 1 else "")


def _last(events: list[Answer], as_of: str) -> str:
    if not events:
        return "-"
    newest = events[0]
    return f"{newest['outcome'].replace('_', ' ')} {span_text(moment(as_of) - moment(newest['at']))} ago"


def show_recoveries(console: Console, answer: Answer) -> None:
    total = answer["interruptions_total"]
    since = when(answer["since"])
    if not total:
        say(console, f"No job was interrupted since {since} UTC.")
        return
    outcomes = ", ".join(f"{number} {outcome.replace('_', ' ')}" for outcome, number in answer["by_outcome"].items())
    say(console, f"{count_text(total, 'interruption')} since {since} UTC: {outcomes}.", "bold")
    signals = ", ".join(
        f"{_SIGNALS.get(signal, signal)} {number}" for signal, number in answer["noticed_first"].items()
    )
    say(console, f"First detected by: {signals}.")
    lost = f"{span_text(timedelta(seconds=answer['lost_seconds']))} of work ({dollars(answer['lost_cost'])})"
    say(console, f"Lost: {lost}; started from zero: {count_text(answer['from_zero'], 'time')}.")
    for span in answer["spans"]:
        _show_span(console, span)


def _show_span(console: Console, span: Answer) -> None:
    """A span's median and a histogram."""
    title = _SPANS.get(span["what"], span["what"])
    console.print()
    if not span["count"]:
        say(console, f"{title}: not measured yet.")
        return
    median, p90, longest = (_seconds(span[name]) for name in ("median_seconds", "p90_seconds", "longest_seconds"))
    say(console, f"{title}: median {median}, 9 of 10 within {p90}, longest {longest}")
    most = max(bucket["count"] for bucket in span["buckets"]) or 1
    columns = (
        Column("", _bucket_title, right=True),
        Column(" ", lambda bucket: "█" * max(round(_BAR_LENGTH * bucket["count"] / most), 1 if bucket["count"] else 0)),
        Column("  ", lambda bucket: bucket["count"] or "", right=True),
    )
    show_table(console, columns, span["buckets"])


def _bucket_title(bucket: Answer) -> str:
    return "longer" if bucket["up_to_seconds"] is None else f"to {_seconds(bucket['up_to_seconds'])}"


def _seconds(text: str | int) -> str:
    """Formats seconds, with a decimal place below ten: preemptions are detected in fractions of a second."""
    return span_text(timedelta(seconds=float(text)), tenths=True)
