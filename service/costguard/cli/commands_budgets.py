"""`costguard budgets`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import typer
from rich.console import Console

from costguard.cli.client import Server
from costguard.cli.format import dollars, moment
from costguard.cli.options import DEFAULT_URL, AsJson, Url, print_json
from costguard.cli.tables import Row, cell, console, say, show_table

_EXAMPLES = """Examples:

  costguard budgets                 what is spent, and what will be, against each limit

  costguard budgets --json          the same for a script, with every threshold
"""
_COLUMNS = ("Budget", "Scope", "Until", "", "Spent", "Forecast", "Range", "Limit")
_BAR = 24  # characters
_SPENT, _COMING, _FREE = "█", "▒", "·"


def register(app: typer.Typer) -> None:
    app.command("budgets", epilog=_EXAMPLES)(budgets)


def budgets(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Each budget in its present day, week or month: spent, forecast with its range, thresholds."""
    answer = Server(url).get("budgets")
    if as_json:
        print_json(answer)
        return
    _show(console(), answer)


def _show(out: Console, answer: dict[str, Any]) -> None:
    found = answer["budgets"]
    if not found:
        say(out, "No budget is set. Add one to the settings file, and restart the server:")
        for line in ("[budgets.team]", "limit = 2500", 'period = "month"'):
            say(out, f"  {line}")
        return
    show_table(out, _COLUMNS, [_row(each) for each in found], right=_COLUMNS[4:], spare=("Range", "Until", "Scope", ""))
    out.print()
    for each in found:
        for line in _told(each):
            say(out, line, _style(each))
    say(out, f"{_SPENT} spent, {_COMING} forecast by the end of the period. Periods begin and end at midnight UTC.")
    for method in dict.fromkeys(each["forecast"]["method"] for each in found):
        say(out, f"Forecast: {method}", "dim")


def _row(of: dict[str, Any]) -> Row:
    told, style = of["forecast"], _style(of)
    gap = " + ?" if of["unpriced"] else ""
    return {
        "Budget": cell(of["name"], style),
        "Scope": cell(_scope(of)),
        "Until": cell(f"{moment(of['ends_at']):%Y-%m-%d}"),
        "": cell(_bar(of), style),
        "Spent": cell(f"{dollars(of['spent'])} {of['spent_percent']:>3}%{gap}"),
        "Forecast": cell(
            f"{dollars(told['expected'])} {of['forecast_percent']:>3}%" if told["is_grounded"] else "too early to say"
        ),
        "Range": cell(f"{dollars(told['low'])} to {dollars(told['high'])}"),
        "Limit": cell(dollars(of["limit"])),
    }


def _bar(of: dict[str, Any]) -> str:
    """The limit is the bar's end; what goes past it shows as a full bar with a mark."""
    limit = Decimal(of["limit"])
    spent = min(_BAR, int(_BAR * Decimal(of["spent"]) / limit))
    told = of["forecast"]
    expected = Decimal(told["expected"] if told["is_grounded"] else of["spent"])
    coming = min(_BAR, int(_BAR * expected / limit))
    is_over = expected > limit
    return _SPENT * spent + _COMING * (coming - spent) + _FREE * (_BAR - coming) + ("!" if is_over else " ")


def _style(of: dict[str, Any]) -> str:
    if of["spent_percent"] >= 100:
        return "bold red"
    return "yellow" if of["forecast"]["is_grounded"] and of["forecast_percent"] >= 100 else ""


def _scope(of: dict[str, Any]) -> str:
    parts = [f"{part} {of[part]}" for part in ("project", "preset", "owner", "team", "job") if of[part] is not None]
    return ", ".join(parts) or "everything"


def _told(of: dict[str, Any]) -> list[str]:
    """A line for each threshold that was crossed, with when, and who answers for the budget."""
    lines = []
    for each in of["thresholds"]:
        if each["is_crossed"] or each["first_at"]:
            what = "spent" if each["on"] == "spent" else "forecast"
            since = f"since {moment(each['first_at']):%Y-%m-%d %H:%M} UTC" if each["first_at"] else "now"
            again = "" if each["is_crossed"] else ", and below it again"
            lines.append(f"{of['name']}: {what} past {each['percent']}% ({dollars(each['amount'])}) {since}{again}")
    if of["at_limit"] != "tell":
        stops = ", and their Spot VMs stop" if of["at_limit"] == "stop-spot" else ""
        lines.append(f"{of['name']}: once it is spent, jobs get no VM{stops}.")
    if of["contact"]:
        lines.append(f"{of['contact']} answers for {of['name']}.")
    return lines
