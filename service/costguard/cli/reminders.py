"""`costguard reminders`, `costguard reminders preview` and `costguard enforcement`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from costguard.cli.command_line import CommandLine
from costguard.cli.fleet import find_vm
from costguard.cli.ledger import gpu
from costguard.cli.options import DEFAULT_URL, AsJson, From, Last, Limit, To, Url, complete_vms, days, has_filter
from costguard.cli.server import ServerClient
from costguard.cli.tables import (
    Answer,
    Column,
    amount_text,
    cell,
    moment,
    nothing_fits,
    ran,
    rate,
    render,
    say,
    show_page,
    show_table,
    when,
)
from costguard.model.duration import span_text
from costguard.model.words import count_text

_EXAMPLES = """Examples:

  costguard reminders                          sent messages, and those still to be sent

  costguard reminders --status failed          what Slack refused, and why

  costguard reminders preview                  what would be sent now, and why nothing else
"""
_STATUSES = ("intended", "sending", "accepted", "withdrawn", "failed")
_KINDS = ("reminder", "digest", "report", "reservation", "notification", "job", "ephemeral")
_STATUS_STYLE = {"accepted": "green", "failed": "bold red", "intended": "yellow", "sending": "yellow"}
_TARGETS = {"owner": "the owner", "channel": "the channel", "contact": "the budget's contact"}
_BOUNDS = {
    "ran_again": "ran again",
    "ended": "ended",
    "decided_again": "decided again",
    "now": "to now",
    "longest": "24 h, the most",
}


def _one_of(values: tuple[str, ...]) -> Any:
    def check(given: str | None) -> str | None:
        if given is not None and given not in values:
            raise typer.BadParameter(f"{given!r} is none of {', '.join(values)}.")
        return given

    return check


def register(app: typer.Typer) -> None:
    group = CommandLine(invoke_without_command=True, epilog=_EXAMPLES)
    group.callback()(reminders)
    group.command("preview", epilog="Example:  costguard reminders preview --json")(preview)
    app.add_typer(group, name="reminders")
    app.command("enforcement", epilog="Example:  costguard enforcement --from 2026-11-01")(enforcement)


def reminders(
    context: typer.Context,
    vm: Annotated[
        str | None,
        typer.Option(
            "--vm",
            "--id",
            metavar="VM",
            help="Only messages about this VM, by name or id.",
            autocompletion=complete_vms,
        ),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(
            "--subject", metavar="SUBJECT", help="Only messages about this lifetime or stopped VM, such as run:12:7."
        ),
    ] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="STATUS", callback=_one_of(_STATUSES), help=f"{', '.join(_STATUSES)}."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", callback=_one_of(_KINDS), help=f"{', '.join(_KINDS)}.")
    ] = None,
    limit: Limit = 50,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List messages, the latest first: the recipient, and whether Slack accepted them.

    `preview` shows the next ones.
    """
    if context.invoked_subcommand is not None:
        return
    server = ServerClient(url)
    filters = {"gce_id": vm and find_vm(server, vm, None)["gce_id"], "subject": subject, "status": status, "kind": kind}
    answer = server.pages("reminders", "reminders", limit, **filters)
    render(answer, as_json, show_messages, has_filter(*filters.values()))


def preview(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Preview the reminders that are due, with the reasons, and why each other VM gets none. Nothing is sent."""
    render(ServerClient(url).get("reminders", "preview"), as_json, show_preview)


def enforcement(
    first: From = None, to: To = None, last: Last = None, url: Url = DEFAULT_URL, as_json: AsJson = False
) -> None:
    """List the VMs that rules stopped or would have stopped, each with its rule and the saving."""
    server = ServerClient(url)
    first, to = days(server, first, to, last)
    render(server.get("enforcement", **{"from": first, "to": to}), as_json, show_enforcement)


def _kind(message: Answer) -> str:
    """`reminder 3 to the owner`, `digest`."""
    if message["kind"] != "reminder":
        return str(message["kind"])
    return f"reminder {message['stage'] + 1} to {_TARGETS.get(message['target'], message['target'])}"


def _why(message: Answer) -> str:
    if message["try_after"] is None or not message["attempts"]:
        return str(message["error"])
    tried = f"tried {count_text(message['attempts'], 'time')}, again at {when(message['try_after'])}"
    return f"{tried}: {message['error'] or 'not known'}"


_MESSAGES = (
    Column("Intended", lambda message: when(message["intended_at"]), spare=1),
    Column("What", _kind),
    Column("About", lambda message: message["name"] or "-"),
    Column("To", "address"),
    Column("Status", lambda message: cell(message["status"], _STATUS_STYLE.get(message["status"], "dim"))),
    Column("Accepted", lambda message: when(message["accepted_at"]) or "-", spare=2),
    Column("Why", _why, prose=True),
)


def show_messages(console: Console, answer: Answer, is_filtered: bool) -> None:
    hint = "`costguard reminders` alone shows the latest of every kind."
    show_page(console, _MESSAGES, answer, "reminders", nothing=nothing_fits("message", is_filtered, hint))


def show_preview(console: Console, answer: Answer) -> None:
    """Each message as it would read, then why each other VM gets none."""
    messages = answer["messages"]
    for message in messages:
        _show_message(console, message, answer["as_of"])
    if not answer["channel"]:
        say(console, "Slack is not set up, so nothing is sent: add a section [slack] with its channel.", "yellow")
    elif not messages:
        say(console, "No message would be sent now.")
    else:
        say(console, f"{count_text(len(messages), 'reminder')} would be sent now.", "bold")
    for action in answer["actions"]:
        is_shadow = answer["is_shadow"] and action["action"] == "stop"
        shadow = " (shadow: recorded, not done)" if is_shadow else ""
        say(console, f"Would {action['action']} {action['name']}{shadow}: {action['reason']}", "bold")
    if answer["left_alone"]:
        console.print()
        say(console, "Left alone", "bold")
        columns = (
            Column("VM", "name"),
            Column("Project", "project", spare=1),
            Column("Why", lambda vm: cell(vm["reason"], "yellow" if vm["overdue"] else ""), prose=True),
            Column("Next", lambda vm: _next(vm, answer["as_of"])),
        )
        show_table(console, columns, answer["left_alone"])


def _show_message(console: Console, message: Answer, as_of: str) -> None:
    recipients = ", ".join(f"{_TARGETS.get(to['target'], to['target'])} ({to['address']})" for to in message["to"])
    say(console, f"{message['name']}  {message['project']} / {message['zone']}, {gpu(message)}", "bold")
    started = message["started_at"]
    state = f"Running for {ran(started, as_of)}" if started else "Stopped, and its storage is billed"
    cost, hourly = amount_text(message["cost"]), amount_text(message["rate_per_hour"], rate)
    owner = message["owner"] or "not known"
    span = "this run" if started else "so far"
    say(console, f"  {state}; {cost} {span}, {hourly} an hour. Owner: {owner}. Preset: {message['preset']}.")
    if message["evidence"]:
        say(console, f"  {message['evidence']}")
    say(console, f"  Why: {message['reason']}.")
    say(console, f"  Reminder {message['stage'] + 1} to {recipients or 'no one'}.")
    console.print()


def _next(vm: Answer, as_of: str) -> str:
    """`stopped in 20 min`, `reminder in 3 h`, `due in 5 h`."""
    for name, word in (("stop_at", "stopped"), ("next_at", "reminder"), ("due_at", "due")):
        if vm[name] is not None:
            left = moment(vm[name]) - moment(as_of)
            return f"{word} now" if left.total_seconds() <= 0 else f"{word} in {span_text(left)}"
    return "-"


def _outcome(stop: Answer) -> Any:
    word = "stopped" if stop["outcome"] == "done" else stop["outcome"]
    error = f": {stop['error']}" if stop["error"] else ""
    return cell(f"{word.replace('_', ' ')}{error}", "bold red" if stop["outcome"] == "failed" else "")


def _counted(stop: Answer) -> str:
    """The time that counts as saved, and what bounds it."""
    saved = stop["saved"]
    if saved is None:
        return "-"
    span = span_text(moment(saved["until"]) - moment(saved["since"]))
    return f"{span} ({_BOUNDS.get(saved['bound'], saved['bound'])})"


def _saved(saved: Answer | None) -> str:
    return "-" if saved is None else amount_text(saved["amount"])


def _rule(stop: Answer) -> str:
    return f"{stop['rule']}: {stop['reason']}"


_WHEN = Column("When", lambda stop: when(stop["decided_at"]))
_OWNER = Column("Owner", lambda stop: stop["owner"] or "unclaimed", spare=1)
_STOPS = (
    _WHEN,
    Column("VM", "name"),
    _OWNER,
    Column("Outcome", _outcome),
    Column("Why", lambda stop: f"requested by {stop['asked_by']}" if stop["asked_by"] else _rule(stop), prose=True),
    Column("Counted", _counted, spare=2),
    Column("Saved", lambda stop: _saved(stop["saved"]), right=True),
)
_SHADOW_STOPS = (
    _WHEN,
    Column("VM", "name"),
    _OWNER,
    Column("Reminders", "reminders", spare=2),
    Column("Why", _rule, prose=True),
    Column("Would have saved", lambda stop: _saved(stop["would_have_saved"]), right=True),
    Column("Cost since", lambda stop: "-" if stop["cost"] is None else amount_text(stop["cost"]), right=True),
)


def show_enforcement(console: Console, answer: Answer) -> None:
    span = f"from {answer['from']} to {answer['to']} (UTC)"
    if answer["stops"]:
        say(console, f"Stopped {span}", "bold")
        show_table(console, _STOPS, answer["stops"])
        say(console, f"{amount_text(answer['saved'])} saved. {answer['method']}")
    else:
        say(console, f"Nothing was stopped {span}.")
    if answer["shadow_stops"]:
        console.print()
        say(console, f"Would have been stopped {span}", "bold")
        show_table(console, _SHADOW_STOPS, answer["shadow_stops"])
        saved, cost = amount_text(answer["would_have_saved"]), amount_text(answer["shadow_cost"])
        say(console, f"{saved} would have been saved, of {cost} that they cost since. {answer['shadow_method']}")
    if answer["is_shadow"]:
        say(console, "Shadow mode: rules stop nothing yet; requests by users are carried out.", "yellow")
