"""Messages, previews and stops in words and tables."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from costguard.cli.fleet_table import gpu
from costguard.cli.format import age, amount_text, count, moment, ran, rate, when
from costguard.cli.tables import Row, cell, say, say_nothing, show_table

_STATUS_STYLE = {"accepted": "green", "failed": "bold red", "intended": "yellow", "sending": "yellow"}
_WHO = {"owner": "the owner", "channel": "the channel", "contact": "the budget's contact"}
_BOUND = {
    "ran_again": "ran again",
    "ended": "ended",
    "decided_again": "decided again",
    "now": "to now",
    "longest": "24 h, the most",
}


def show(console: Console, answer: dict[str, Any], asked: bool) -> None:
    rows: list[Row] = [
        {
            "Intended": cell(when(each["intended_at"])),
            "What": cell(_what(each)),
            "About": cell(each["name"] or "-"),
            "To": cell(each["address"]),
            "Status": cell(each["status"], _STATUS_STYLE.get(each["status"], "dim")),
            "Accepted": cell(when(each["accepted_at"]) or "-"),
            "Why": cell(_why(each)),
        }
        for each in answer["reminders"]
    ]
    if rows:
        show_table(console, tuple(rows[0]), rows, prose=("Why",), spare=("Intended", "Accepted"))
    else:
        say_nothing(console, "message", asked, "`costguard reminders` alone shows the latest of every kind.")
    if answer["next_cursor"] is not None:
        say(console, f"Shown: the latest {len(rows)}. --limit 0 shows all.")


def show_preview(console: Console, answer: dict[str, Any]) -> None:
    """As messages read, then the reason for each VM that none would be sent about."""
    sends = answer["messages"]
    for each in sends:
        _message(console, each, answer["as_of"])
    if not answer["channel"]:
        say(console, "Slack is not set up, so nothing is sent: add a section [slack] with its channel.", "yellow")
    elif not sends:
        say(console, "No message would be sent now.")
    else:
        say(console, f"{count(len(sends), 'reminder')} would be sent now.", "bold")
    for action in answer["actions"]:
        shadow = " (shadow: recorded, not done)" if answer["is_shadow"] and action["action"] == "stop" else ""
        say(console, f"Would {action['action']} {action['name']}{shadow}: {action['reason']}", "bold")
    rows = [_left_alone(each, answer["as_of"]) for each in answer["left_alone"]]
    if rows:
        console.print()
        say(console, "Left alone", "bold")
        show_table(console, tuple(rows[0]), rows, prose=("Why",), spare=("Project",))


def show_enforcement(console: Console, answer: dict[str, Any]) -> None:
    span = f"from {answer['from']} to {answer['to']} (UTC)"
    stops, shadows = answer["stops"], answer["shadow_stops"]
    if stops:
        say(console, f"Stopped {span}", "bold")
        rows = [_stop(each) for each in stops]
        show_table(console, tuple(rows[0]), rows, right=("Saved",), prose=("Why",), spare=("Owner", "Counted"))
        say(console, f"{amount_text(answer['saved'])} saved. {answer['method']}")
    else:
        say(console, f"Nothing was stopped {span}.")
    if shadows:
        console.print()
        say(console, f"Would have been stopped {span}", "bold")
        rows = [_shadow(each) for each in shadows]
        right = ("Would have saved", "Cost since")
        show_table(console, tuple(rows[0]), rows, right=right, prose=("Why",), spare=("Owner", "Reminders"))
        saved, cost = amount_text(answer["would_have_saved"]), amount_text(answer["shadow_cost"])
        say(console, f"{saved} would have been saved, of {cost} that they cost since. {answer['shadow_method']}")
    if answer["is_shadow"]:
        say(console, "Shadow: rules stop nothing yet; what people ask for is done.", "yellow")


def _message(console: Console, of: dict[str, Any], as_of: str) -> None:
    to = ", ".join(f"{_WHO.get(each['target'], each['target'])} ({each['address']})" for each in of["to"])
    say(console, f"{of['name']}  {of['project']} / {of['zone']}, {gpu(of)}", "bold")
    started = of["started_at"]
    runs = f"Runs for {ran(started, as_of)}" if started else "Does not run, and its storage is billed"
    cost, hourly = amount_text(of["cost"]), amount_text(of["rate_per_hour"], rate)
    whose = of["owner"] or "nobody known"
    say(console, f"  {runs}; {cost} so far, {hourly} an hour. Owner: {whose}. Preset: {of['preset']}.")
    if of["evidence"]:
        say(console, f"  {of['evidence']}")
    say(console, f"  Why: {of['reason']}.")
    say(console, f"  Reminder {of['stage'] + 1} to {to or 'nobody'}.")
    console.print()


def _left_alone(of: dict[str, Any], as_of: str) -> Row:
    return {
        "VM": cell(of["name"]),
        "Project": cell(of["project"]),
        "Why": cell(of["reason"], "yellow" if of["overdue"] else ""),
        "Next": cell(_next(of, as_of)),
    }


def _next(of: dict[str, Any], as_of: str) -> str:
    """`stopped in 20 min`, `reminder in 3 h`, `due in 5 h`."""
    for name, word in (("stop_at", "stopped"), ("next_at", "reminder"), ("due_at", "due")):
        if of[name] is not None:
            left = moment(of[name]) - moment(as_of)
            return f"{word} now" if left.total_seconds() <= 0 else f"{word} in {age(left)}"
    return "-"


def _stop(of: dict[str, Any]) -> Row:
    saved = of["saved"]
    return {
        "When": cell(when(of["decided_at"])),
        "VM": cell(of["name"]),
        "Owner": cell(of["owner"] or "unclaimed"),
        "Outcome": cell(_outcome(of), "bold red" if of["outcome"] == "failed" else ""),
        "Why": cell(f"{of['asked_by']} asked for it" if of["asked_by"] else f"{of['rule']}: {of['reason']}"),
        "Counted": cell("-" if saved is None else _counted(saved)),
        "Saved": cell("-" if saved is None else amount_text(saved["amount"])),
    }


def _shadow(of: dict[str, Any]) -> Row:
    saved = of["would_have_saved"]
    return {
        "When": cell(when(of["decided_at"])),
        "VM": cell(of["name"]),
        "Owner": cell(of["owner"] or "unclaimed"),
        "Reminders": cell(of["reminders"]),
        "Why": cell(f"{of['rule']}: {of['reason']}"),
        "Would have saved": cell("-" if saved is None else amount_text(saved["amount"])),
        "Cost since": cell("-" if of["cost"] is None else amount_text(of["cost"])),
    }


def _outcome(of: dict[str, Any]) -> str:
    word = {"done": "stopped"}.get(of["outcome"], of["outcome"])
    error = f": {of['error']}" if of["error"] else ""
    return f"{word.replace('_', ' ')}{error}"


def _counted(of: dict[str, Any]) -> str:
    return f"{age(moment(of['until']) - moment(of['since']))} ({_BOUND.get(of['bound'], of['bound'])})"


def _what(of: dict[str, Any]) -> str:
    """`reminder 3 to the owner`, `digest`."""
    if of["kind"] != "reminder":
        return str(of["kind"])
    return f"reminder {of['stage'] + 1} to {_WHO.get(of['target'], of['target'])}"


def _why(of: dict[str, Any]) -> str:
    if of["try_after"] is not None and of["attempts"]:
        return f"tried {count(of['attempts'], 'time')}, again at {when(of['try_after'])}: {of['error'] or 'not known'}"
    return str(of["error"])
