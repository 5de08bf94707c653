"""`costguard budgets`: what is spent and forecast against each limit."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import typer
from rich.console import Console

from costguard.cli.options import DEFAULT_URL, AsJson, Url
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, cell, dollars, moment, render, say, show_table
from costguard.model.moments import utc_text

_EXAMPLES = """Examples:

  costguard budgets                 spent and forecast amounts against each limit

  costguard budgets --json          the same for a script, with every threshold
"""
_BAR_LENGTH = 24  # characters
_SPENT, _COMING, _FREE = "█", "▒", "·"
_SCOPES = ("project", "preset", "owner", "team", "job", "label")


def register(app: typer.Typer) -> None:
    app.command("budgets", epilog=_EXAMPLES)(budgets)


def budgets(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """List budgets in their current day, week or month: spent, forecast with its range, and thresholds."""
    render(ServerClient(url).get("budgets"), as_json, show_budgets)


def show_budgets(console: Console, answer: Answer) -> None:
    rows = answer["budgets"]
    if not rows:
        say(console, "No budget is set. Add one to the settings file, and restart the server:")
        for line in ("[budgets.team]", "limit = 2500", 'period = "month"'):
            say(console, f"  {line}")
        return
    show_table(console, _COLUMNS, rows)
    console.print()
    for budget in rows:
        for line in _notes(budget):
            say(console, line, _style(budget))
    say(console, f"{_SPENT} spent, {_COMING} forecast by the end of the period. Periods begin and end at midnight UTC.")
    for method in dict.fromkeys(budget["forecast"]["method"] for budget in rows):
        say(console, f"Forecast: {method}", "dim")


def bar(budget: Answer) -> str:
    """The limit is the bar's end; what exceeds it shows as a full bar with a mark."""
    limit = Decimal(budget["limit"])
    spent = min(_BAR_LENGTH, int(_BAR_LENGTH * Decimal(budget["spent"]) / limit))
    forecast = budget["forecast"]
    expected = Decimal(forecast["expected"] if forecast["is_grounded"] else budget["spent"])
    coming = min(_BAR_LENGTH, int(_BAR_LENGTH * expected / limit))
    end = "!" if expected > limit else " "
    return _SPENT * spent + _COMING * (coming - spent) + _FREE * (_BAR_LENGTH - coming) + end


def _style(budget: Answer) -> str:
    if budget["spent_percent"] >= 100:
        return "bold red"
    return "yellow" if budget["forecast"]["is_grounded"] and budget["forecast_percent"] >= 100 else ""


def _styled(text: Any) -> Any:
    return lambda budget: cell(text(budget), _style(budget))


def _scope(budget: Answer) -> str:
    return ", ".join(f"{part} {budget[part]}" for part in _SCOPES if budget[part] is not None) or "everything"


def _spent(budget: Answer) -> str:
    return f"{dollars(budget['spent'])} {budget['spent_percent']:>3}%{' + ?' if budget['unpriced'] else ''}"


def _forecast(budget: Answer) -> str:
    forecast = budget["forecast"]
    if not forecast["is_grounded"]:
        return "too early to say"
    return f"{dollars(forecast['expected'])} {budget['forecast_percent']:>3}%"


def _range(budget: Answer) -> str:
    return f"{dollars(budget['forecast']['low'])} to {dollars(budget['forecast']['high'])}"


_COLUMNS = (
    Column("Budget", _styled(lambda budget: budget["name"])),
    Column("Scope", _scope, spare=3),
    Column("Until", lambda budget: f"{moment(budget['ends_at']):%Y-%m-%d}", spare=2),
    Column("", _styled(bar), spare=4),
    Column("Spent", _spent, right=True),
    Column("Forecast", _forecast, right=True),
    Column("Range", _range, right=True, spare=1),
    Column("Limit", lambda budget: dollars(budget["limit"]), right=True),
)


def _notes(budget: Answer) -> Iterator[str]:
    """A line for each crossed threshold, with when; then what happens at the limit, and the contact."""
    name = budget["name"]
    for threshold in budget["thresholds"]:
        if threshold["is_crossed"] or threshold["first_at"]:
            what = "spent" if threshold["on"] == "spent" else "forecast"
            first_at = threshold["first_at"]
            since = f"since {utc_text(moment(first_at))}" if first_at else "now"
            again = "" if threshold["is_crossed"] else ", and below it again"
            yield f"{name}: {what} past {threshold['percent']}% ({dollars(threshold['amount'])}) {since}{again}"
    if Decimal(budget["downloads"]):
        yield f"{name}: {dollars(budget['downloads'])} of it is for jobs' inputs, on another cloud's bill."
    if budget["at_limit"] != "tell":
        stops = ", and their Spot VMs stop" if budget["at_limit"] == "stop-spot" else ""
        yield f"{name}: once it is spent, jobs get no VM{stops}."
    if budget["contact"]:
        yield f"{budget['contact']} is the contact for {name}."
