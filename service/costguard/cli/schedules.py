"""`costguard schedule`: a job at times in a time zone, created, listed, paused, resumed, run and ended."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

import typer
from rich.console import Console

from costguard.cli.command_line import CommandGroupWithDefault, CommandLine
from costguard.cli.job.file import JobCommand
from costguard.cli.job.launch import posted, request
from costguard.cli.job.launch_options import JobOptions, takes_job
from costguard.cli.job.quotes import show_quote as show_job_quote
from costguard.cli.options import DEFAULT_URL, AsJson, Key, Limit, Me, Url, has_filter
from costguard.cli.server import ServerClient, WrongUsage
from costguard.cli.tables import (
    Answer,
    Column,
    amount_text,
    cell,
    dollars,
    nothing_fits,
    render,
    say,
    show_page,
    show_table,
    when,
)
from costguard.ledger.narrate import sentence
from costguard.model.duration import read_span
from costguard.model.money import about_text
from costguard.model.words import count_text
from costguard.schedules.schedule import ScheduleState

_EXAMPLES = """Examples:

  costguard schedule train.toml --every day --at 02:00 --time-zone Europe/Berlin --deadline 24h

  costguard schedule a100 --every weekday --at 19:30 --checkpoint 'gs://lab/nightly/{date}' -- python train.py

  costguard schedule train.toml --cron '0 2 1,15 * *' --dry-run      the next times, and what a month costs
"""
_STYLES = {"active": "green", "paused": "yellow", "ended": "dim"}
_OUTCOMES = {"refused": "bold red", "missed": "bold red", "skipped": "yellow", "launching": "yellow"}


class _JobFirst(CommandGroupWithDefault):
    """`costguard schedule FILE` is `costguard schedule create FILE`."""

    default = "create"


ScheduleId = Annotated[
    str, typer.Argument(metavar="SCHEDULE", help="The schedule's id, such as c7k2m9q4, or its name.")
]


def register(app: typer.Typer) -> None:
    group = CommandLine(cls=_JobFirst, no_args_is_help=True, help="Schedules: a job at times in a time zone.")
    group.command("create", epilog=_EXAMPLES, cls=JobCommand)(create)
    group.command("list", epilog="Example:  costguard schedule list --all")(list_)
    group.command("show", epilog="Example:  costguard schedule show nightly")(show)
    group.command("pause", epilog="Example:  costguard schedule pause nightly")(pause)
    group.command("resume", epilog="Example:  costguard schedule resume nightly")(resume)
    group.command("run", epilog="Example:  costguard schedule run nightly")(run)
    group.command("end", epilog="Example:  costguard schedule end nightly")(end)
    app.add_typer(group, name="schedule")


@takes_job
def create(
    job: JobOptions,
    every: Annotated[
        str,
        typer.Option("--every", metavar="EVERY", help="day, weekday, month, hour, 6h, or days such as monday,friday."),
    ] = "",
    at: Annotated[str, typer.Option("--at", metavar="HH:MM", help="The time of the day. Default: 00:00.")] = "",
    cron: Annotated[
        str, typer.Option("--cron", metavar="FIELDS", help="The five fields of cron, in place of --every and --at.")
    ] = "",
    time_zone: Annotated[
        str, typer.Option("--time-zone", metavar="ZONE", help="The time zone of the times, such as Europe/Berlin.")
    ] = "UTC",
    overlap: Annotated[
        bool, typer.Option("--overlap", help="Launch a run also while an earlier one is open. Default: skip it.")
    ] = False,
    late: Annotated[
        str | None,
        typer.Option(
            "--late",
            metavar="SPAN",
            help="The most that a run may be late, such as 2h. Default: half of the time to the next.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the next times and what a month costs, and create nothing.")
    ] = False,
    hours: Annotated[
        float | None,
        typer.Option(
            "--hours", metavar="HOURS", help="The hours of a run, with --dry-run. Default: as --work, else 1."
        ),
    ] = None,
    key: Key = "",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Create a schedule: the server launches the job at each time, also while this computer is off.

    Takes every option of `costguard launch`. {date} and {time} in its texts stand for the time of the run.
    """
    server = ServerClient(url)
    given = dict(job.body)
    body: dict[str, Any] = {"every": every, "at": at, "cron": cron, "time_zone": time_zone, "overlap": overlap}
    body["name"] = given.pop("name", "")  # a run's has its time in it
    if late is not None:
        body["late_minutes"] = _minutes(late)
    if dry_run:
        if job.workdir:
            given.pop("workdir", None)  # a folder in the code, which a price does not need
        hours = hours or job["work"] or 1
        quote = server.post("schedule-quotes", body={**body, "job": given, "hours": hours})
        render(quote, as_json, show_quote)
        if quote["refusals"]:
            raise typer.Exit(1)
        return
    body["job"] = request(server, job, given)
    render(posted(server, "schedules", body, key or secrets.token_hex(16), "creates"), as_json, show_schedule)


def _minutes(late: str) -> int:
    span = read_span(late)
    if span is None or span.total_seconds() % 60:
        raise WrongUsage(f"--late: {late!r} is no span of whole minutes.", "Write one such as 30m or 2h.")
    return int(span.total_seconds()) // 60


def list_(
    state: Annotated[ScheduleState | None, typer.Option("--state", metavar="STATE", help="Only this state.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="ADDRESS", help="Only this owner's.")] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Include schedules that have ended.")] = False,
    limit: Limit = 50,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List schedules, the newest first: times, state with its reason, and the last run."""
    states = [state] if state is not None else [] if everything else [ScheduleState.ACTIVE, ScheduleState.PAUSED]
    answer = ServerClient(url).pages("schedules", "schedules", limit, state=states, owner=owner)
    render(answer, as_json, show_schedules, has_filter(owner, None if everything else states))


def show(schedule_id: ScheduleId, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Show a schedule: its last runs with outcome, job and cost."""
    render(ServerClient(url).get("schedules", schedule_id), as_json, show_schedule)


def pause(schedule_id: ScheduleId, owner: Me = "", url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Pause a schedule: nothing is launched until it is resumed. Repeating it is harmless."""
    _act(schedule_id, "pause", owner, url, as_json)


def resume(schedule_id: ScheduleId, owner: Me = "", url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Resume a paused schedule with its next time."""
    _act(schedule_id, "resume", owner, url, as_json)


def run(
    schedule_id: ScheduleId, owner: Me = "", key: Key = "", url: Url = DEFAULT_URL, as_json: AsJson = False
) -> None:
    """Launch a run now, besides those at its times."""
    _act(schedule_id, "run", owner, url, as_json, key or secrets.token_hex(16))


def end(schedule_id: ScheduleId, owner: Me = "", url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """End a schedule for good. Jobs that it launched go on."""
    _act(schedule_id, "end", owner, url, as_json)


def _act(schedule_id: str, verb: str, owner: str, url: str, as_json: bool, key: str | None = None) -> None:
    body = {"by": owner} if owner else {}
    render(ServerClient(url).post("schedules", schedule_id, verb, body=body, key=key), as_json, show_schedule)


def _last(row: Answer) -> str:
    last = row["last"]
    if last is None:
        return "-"
    return f"{when(last['due_at'])}: {last['state'] or last['outcome']}"


_SCHEDULES = (
    Column("Schedule", "id"),
    Column("Name", lambda row: row["name"] or "-"),
    Column("Owner", "owner", spare=3),
    Column("Preset", "preset", spare=2),
    Column("State", lambda row: cell(row["state"], _STYLES.get(row["state"], ""))),
    Column("Times", "times", prose=True),
    Column("Next", lambda row: when(row["next_due"]) if row["next_due"] else "-"),
    Column("Last run", _last, spare=1),
)
_RUNS = (
    Column("Due", lambda run: when(run["due_at"])),
    Column("Outcome", lambda run: cell(run["outcome"], _OUTCOMES.get(run["outcome"], ""))),
    Column("Job", lambda run: run["job"] or "-"),
    Column("State", lambda run: run["state"] or "-"),
    Column("Cost", lambda run: amount_text(run["cost"]) if run["job"] else "-", right=True),
    Column("Why", lambda run: sentence(run["reason"]), prose=True, spare=1),
)


def show_schedules(console: Console, answer: Answer, is_filtered: bool) -> None:
    nothing = nothing_fits("schedule", is_filtered, "`costguard schedule list --all` includes those that have ended.")
    show_page(console, _SCHEDULES, answer, "schedules", nothing=nothing, order="newest")


def show_schedule(console: Console, answer: Answer) -> None:
    """Prints its state, its times, and its last runs."""
    schedule = answer["schedule"]
    say(console, f"{schedule['title']}  {schedule['id']}  {schedule['state']}", "bold")
    say(console, f"A job on {schedule['preset']} {schedule['times']}. {sentence(schedule['reason'])}")
    if answer["runs"]:
        show_table(console, _RUNS, answer["runs"])
        runs = count_text(len(answer["runs"]), "run")
        say(console, f"Cost of {runs}: {amount_text(answer['cost'])}.")
    if schedule["state"] == ScheduleState.ACTIVE:
        say(console, f"Pause it with: costguard schedule pause {schedule['id']}", "dim")
    elif schedule["state"] == ScheduleState.PAUSED:
        say(console, f"Resume it with: costguard schedule resume {schedule['id']}", "dim")


def show_quote(console: Console, answer: Answer) -> None:
    show_job_quote(console, answer["job"])
    if answer["times"]:
        say(
            console, f"It runs {answer['times']}, next at {', '.join(when(due) for due in answer['next_due'])}.", "bold"
        )
    if answer["cost_a_month"] is not None:
        runs = count_text(answer["runs_a_month"], "run")
        say(console, f"A month of {runs}: {about_text(dollars(answer['cost_a_month']))}.", "bold")
    for warning in answer["warnings"]:
        say(console, f"WARNING: {warning}", "yellow")
    printed = {refusal["message"] for refusal in answer["job"]["refusals"]}  # printed with the job's quote
    for refusal in answer["refusals"]:
        if refusal["message"] not in printed:
            say(console, f"WOULD BE REFUSED: {refusal['message']}", "bold red")
