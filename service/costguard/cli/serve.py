"""`costguard serve`, `costguard pass` and `costguard sandbox`: what runs here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from costguard.cli.options import AsJson, AsJsonLine, Config, listening_address, print_json, settings_of
from costguard.cli.tables import clean
from costguard.model.action import (
    Action,
    AssignOwner,
    CancelJob,
    KeepLifetime,
    RefuseRequest,
    SendReminder,
    StopInstance,
)
from costguard.model.mending import command_for
from costguard.model.reminder import Subject
from costguard.model.words import count_text

if TYPE_CHECKING:
    from costguard.daemon.reconcile import PassReport
    from costguard.ledger.record import Recorded
    from costguard.settings import Settings

_SIGN_IN = "To sign in, `costguard sign-in` prints a link; programs use a token."
_SANDBOX_EXAMPLES = """Examples:

  costguard sandbox                          the demo's scenario, in real time

  costguard sandbox fleet.toml --speed 60    your own scenario, an hour a minute

  costguard sandbox empty --run-vms          VMs run as local processes

With the settings compute.endpoint and prices.endpoint at its address,
Costguard watches it.

Only `costguard demo` follows a clock that was sped up. `serve` and `pass`
keep real time: for them, leave --speed at 1.
"""
_MOST_EVENTS = 20
_ACTIONS: Mapping[type[Action], tuple[str, str]] = {
    SendReminder: ("reminder", "will be sent, as fast as Slack accepts them"),
    StopInstance: ("stop", "decided (in shadow mode, stops by rules are only recorded)"),
    KeepLifetime: ("keep", "granted"),
    AssignOwner: ("owner", "changed"),
    CancelJob: ("job", "will be cancelled"),
    RefuseRequest: ("request", "refused"),
}


def register(app: typer.Typer) -> None:
    app.command("serve", epilog="Example:  costguard serve --config costguard.toml")(serve)
    app.command("pass", epilog="Example:  costguard pass --json | jq .decisions")(run_pass)
    app.command("sandbox", epilog=_SANDBOX_EXAMPLES)(sandbox)


def serve(
    config: Config = None,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="HOST:PORT instead of server.listen.")
    ] = None,
    as_json: AsJsonLine = False,
) -> None:
    """Watch the projects, keep the ledger, and serve pages and API, until Ctrl-C or SIGTERM."""
    from costguard import main  # only here: other commands start sooner

    settings = settings_of(config, None if listen is None else listening_address(listen))
    _log(settings)
    server = settings.server
    with (
        main.start_web_processes(server.host, server.port, server.workers) as web,
        main.service(settings, web) as (guard, service),
    ):

        def announce(url: str) -> None:
            # Only to a terminal: others may read a log, and the link is a secret.
            link = main.first_link(guard, url) if sys.stdout.isatty() else None
            if as_json:
                print(json.dumps({"url": url, "sign_in": link}), flush=True)
                return
            local = ", on this computer only" if server.is_loopback else ""
            print(f"Costguard is at {url}{local}.", flush=True)
            print(f"Sign in, once and within ten minutes: {link}" if link else _SIGN_IN, flush=True)

        service.run(announce)


def run_pass(config: Config = None, as_json: AsJson = False) -> None:
    """Run one pass now, and print what it saw, recorded, decided and did.

    Exits 1 when a project could not be read or recorded; the others were. Run it where the server runs.
    """
    from costguard import main

    settings = settings_of(config)
    _log(settings)
    with main.opened(settings) as guard:
        report = guard.by_hand.run()
    if as_json:
        print_json(report_json(report))
    else:
        for line in report_lines(report):
            print(clean(line))
    if any(one.error or any(part.scope == "project" for part in one.unread) for one in report.recorded):
        raise typer.Exit(1)


def sandbox(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A scenario's file, or the name of a shipped one.")
    ] = "demo",
    port: Annotated[
        int,
        typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port of the simulated cloud; 0: any free port."),
    ] = 8766,
    speed: Annotated[
        float, typer.Option("--speed", metavar="TIMES", min=0.001, help="Simulated seconds per real second.")
    ] = 1.0,
    run_vms: Annotated[
        bool,
        typer.Option("--run-vms", help="Run VMs that have a startup script as local processes, on Linux."),
    ] = False,
    vms_folder: Annotated[
        Path | None,
        typer.Option(
            "--vms-folder", metavar="DIR", help="The folder of their disks, not a temporary one; implies --run-vms."
        ),
    ] = None,
    as_json: AsJsonLine = False,
) -> None:
    """Serve a simulated Compute Engine and Slack, with their own prices and meter, until Ctrl-C."""
    # Another program, not another module: the product and the simulated cloud only ever meet over HTTP.
    command = [sys.executable, "-m", "costguard_sandbox", scenario, "--port", str(port), "--speed", str(speed)]
    command += ["--run-vms"] if run_vms else []
    command += ["--vms-folder", str(vms_folder)] if vms_folder is not None else []
    command += ["--json"] if as_json else []
    os.execv(sys.executable, command)  # noqa: S606 - no shell, and every argument is checked above


def _log(settings: Settings) -> None:
    from costguard import logs

    logs.configure(settings.log.level, settings.log.format)


def report_lines(report: PassReport) -> Iterator[str]:
    """The report of a pass for people, a line each."""
    seconds = (report.finished_at - report.started_at).total_seconds()
    yield f"Pass of {report.started_at:%Y-%m-%d %H:%M:%S} UTC, {seconds:.2f} s"
    yield "Saw"
    for project in report.recorded:
        yield from _seen_lines(project)
    yield "Recorded"
    yield from _recorded_lines(report)
    yield "Decided"
    for decision in report.plan.decisions:
        yield f"  {decision.name}: {decision.reason}"
    if not report.plan.decisions:
        blind = any(_is_blind(project) for project in report.recorded)
        yield "  nothing: no VM is known, and not everything could be read" if blind else "  nothing: there are no VMs"
    yield "Did"
    yield from _action_lines(report.plan.actions)


def _seen_lines(project: Recorded) -> Iterator[str]:
    yield f"  {project.project}: {_seen(project)}"
    for part in project.unread:
        what = "all of it" if part.is_whole else part.scope
        yield f"    not read: {what} ({part.code}): {part.reason}"
        if command := command_for(project.project, part):
            yield f"    {command}"
    if project.error:
        yield f"    not recorded: {project.error}"


def _seen(project: Recorded) -> str:
    if project.error:
        return "what was seen is not recorded"
    if _is_blind(project) and not project.seen:
        return f"not read; {count_text(project.missing, 'VM')} known from before"
    parts = [f"{count_text(project.seen, 'VM')}, {project.running} running"]
    if project.absent:
        parts.append(f"{project.absent} gone")
    if project.missing:
        parts.append(f"{project.missing} not listed and not known to be gone")
    return ", ".join(parts)


def _recorded_lines(report: PassReport) -> Iterator[str]:
    changed = sum(project.new_or_changed for project in report.recorded)
    lifetimes = sum(project.lifetimes for project in report.recorded)
    total = sum(project.event_count for project in report.recorded)
    vms, events = count_text(changed, "VM"), count_text(total, "event")
    yield f"  {vms} new or changed, {count_text(lifetimes, 'lifetime')} started or ended, {events}"
    for event in [event for project in report.recorded for event in project.events][:_MOST_EVENTS]:
        yield f"    {event.occurred_at:%Y-%m-%d %H:%M:%S}  {event.text}"
    if total > _MOST_EVENTS:
        yield f"    and {total - _MOST_EVENTS} more: costguard events"
    if report.charged is not None:
        yield f"  {count_text(report.charged.charges, 'charge')} on {count_text(len(report.charged.days), 'day')}"
        if report.charged.unpriced:
            yield f"  {report.charged.unpriced} not fully priced: costguard prices"


def _action_lines(actions: Sequence[Action]) -> Iterator[str]:
    kinds = [type(action) for action in actions]
    for kind, (word, what) in _ACTIONS.items():
        if number := kinds.count(kind):
            yield f"  {count_text(number, word)} {what}"
    if not actions:
        yield "  nothing: no reminder is due, and there are no requests"


def report_json(report: PassReport) -> dict[str, Any]:
    """The report of a pass as one object."""
    decided = {_subject(action): type(action).__name__ for action in report.plan.actions}
    return {
        "started_at": report.started_at.isoformat(),
        "finished_at": report.finished_at.isoformat(),
        "projects": [_project_json(project) for project in report.recorded],
        "charges": report.charged.charges if report.charged is not None else 0,
        "unpriced": report.charged.unpriced if report.charged is not None else 0,
        "decisions": [
            {
                "project": decision.key.project,
                "gce_id": decision.key.gce_id,
                "name": decision.name,
                "action": decided.get(decision.subject) if decision.subject is not None else None,
                "reason": decision.reason,
                "overdue": decision.overdue,
            }
            for decision in report.plan.decisions
        ],
        "actions": [
            {"kind": type(action).__name__, "subject": str(_subject(action)), "reason": action.reason}
            for action in report.plan.actions
        ],
    }


def _project_json(project: Recorded) -> dict[str, Any]:
    return {
        "project": project.project,
        "seen": None if _is_blind(project) else project.seen,
        "running": None if _is_blind(project) else project.running,
        "new_or_changed": project.new_or_changed,
        "gone": project.absent,
        "missing": project.missing,
        "lifetimes": project.lifetimes,
        "unread": [{"scope": part.scope, "code": part.code, "reason": part.reason} for part in project.unread],
        "events": [
            {"kind": event.kind, "occurred_at": event.occurred_at.isoformat(), "text": event.text}
            for event in project.events
        ],
        "error": project.error,
    }


def _subject(action: Action) -> Subject:
    return action.subject if isinstance(action, SendReminder | StopInstance) else action.request.subject


def _is_blind(project: Recorded) -> bool:
    """Says whether the observation misses VMs that may exist."""
    return bool(project.error) or any(part.scope in {"project", "instances"} for part in project.unread)
