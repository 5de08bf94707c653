"""`costguard jobs`, `costguard job`, `costguard output`, `costguard cancel` and `costguard delete-disk`."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.text import Text

from costguard.cli.job.page import disk_bills, show_job
from costguard.cli.options import (
    DEFAULT_URL,
    AsJson,
    JobId,
    Limit,
    Me,
    OnePreset,
    OneProject,
    Reason,
    Url,
    has_filter,
    print_json,
)
from costguard.cli.server import ServerClient
from costguard.cli.tables import (
    Answer,
    Column,
    amount_text,
    cell,
    clean_lines,
    nothing_fits,
    render,
    say,
    show_page,
    when,
)
from costguard.errors import ServerUnreachable
from costguard.ledger.narrate import sentence
from costguard.model.job import JobKind, JobState
from costguard_client import steps

_EXAMPLES = """Examples:

  costguard jobs                            unfinished jobs, and those whose disk is kept

  costguard jobs --all --state failed       failed jobs, the latest first

  costguard job j7k2m9q4                    one job: its attempts, checkpoints, lost work and what comes next
"""
_STYLES = {"running": "green", "recovering": "yellow", "failed": "bold red", "cancelled": "dim", "succeeded": "dim"}
_FOLLOW_S = 5
OVER = frozenset({"succeeded", "failed", "cancelled"})
GOOD = frozenset({"succeeded", "running"})  # how a training job ends well, and when the wait for a dev VM does


Speak = Callable[[str], None]


def register(app: typer.Typer) -> None:
    app.command("jobs", epilog=_EXAMPLES)(jobs)
    app.command("job", epilog="Example:  costguard job j7k2m9q4")(job)
    app.command("output", epilog="Example:  costguard output j7k2m9q4 --attempt 2")(output)
    app.command("cancel", epilog="Example:  costguard cancel j7k2m9q4 --reason 'wrong data'")(cancel)
    app.command("drill", epilog="Example:  costguard drill j7k2m9q4")(drill)
    app.command("delete-disk", epilog="Example:  costguard delete-disk j7k2m9q4")(delete_disk)


def jobs(
    state: Annotated[
        JobState | None, typer.Option("--state", metavar="STATE", help="Only this state, finished or not.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="ADDRESS", help="Only this owner's.")] = None,
    preset: OnePreset = None,
    project: OneProject = None,
    kind: Annotated[JobKind | None, typer.Option("--kind", metavar="KIND", help="training or dev.")] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Include finished jobs.")] = False,
    limit: Limit = 50,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List jobs, the newest first: owner, state with its reason, attempts, and cost so far."""
    filters = {"state": state, "owner": owner, "preset": preset, "project": project, "kind": kind}
    only_open = None if everything or state is not None else True
    answer = ServerClient(url).pages("jobs", "jobs", limit, open=only_open, or_disk_kept=only_open, **filters)
    render(answer, as_json, show_jobs, has_filter(*filters.values()) or bool(only_open))


def job(job_id: JobId, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Show a job: the timeline of its attempts, checkpoints, work at risk and lost, cost, and next step."""
    render(ServerClient(url).get("jobs", job_id), as_json, show_job)


def output(
    job_id: JobId,
    attempt: Annotated[
        int | None,
        typer.Option(
            "--attempt", metavar="N", min=1, help="The attempt's number. Default: the last one that reported."
        ),
    ] = None,
    whole: Annotated[bool, typer.Option("--all", help="Print all stored output, also of VMs that are gone.")] = False,
    grep: Annotated[str, typer.Option("--grep", metavar="REGEX", help="Print only the stored lines that match.")] = "",
    follow_: Annotated[
        bool, typer.Option("--follow", "-f", help="Print all output, and go on as more is printed.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Print a job's output: the end as its VM reported it, or the whole as it is stored."""
    server = ServerClient(url)
    if whole or grep or follow_:
        if as_json:
            raise typer.BadParameter("the stored output is printed as text.", param_hint="--json")
        wanted = _expression(grep)
        for line in stored_lines(server, job_id, attempt, follow_, lambda: threading.Event().wait(_FOLLOW_S)):
            if wanted is None or wanted.search(line):
                print(clean_lines(line.expandtabs()), flush=follow_)
        return
    answer = server.get("jobs", job_id, "output", attempt=attempt)
    if as_json:
        print_json(answer)
        return
    if answer["output"]:
        print(clean_lines(answer["output"].rstrip("\n").expandtabs()))
    print(clean_lines(about_output(answer)), file=sys.stderr)


def cancel(
    job_id: JobId,
    reason: Reason = "",
    delete_disk: Annotated[
        bool,
        typer.Option("--delete-disk", help="Delete also a disk that holds the only copy of what the job saved."),
    ] = False,
    after_checkpoint: Annotated[
        bool,
        typer.Option(
            "--after-checkpoint", help="Cancel once its next checkpoint is saved; the job then counts as cancelled."
        ),
    ] = False,
    never_mind: Annotated[
        bool,
        typer.Option("--never-mind", help="Undo --after-checkpoint; no hint at its standstill until a new best value."),
    ] = False,
    owner: Me = "",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Cancel a job: its command may save, then its VM is deleted. Repeating it is harmless.

    If the job saves on its VM's own disk, the VM is only stopped and the disk is kept, unless --delete-disk is given.
    """
    if never_mind:
        if after_checkpoint or delete_disk or reason:
            raise typer.BadParameter("it takes a request back, and goes with none.", param_hint="--never-mind")
        answer = ServerClient(url).post("jobs", job_id, "never-mind", body={"by": owner} if owner else {})
        render(answer, as_json, _show_never_mind)
        return
    body: dict[str, object] = {"reason": reason, **({"delete_disk": True} if delete_disk else {})}
    if after_checkpoint:
        body["after_checkpoint"] = True
    answer = ServerClient(url).post("jobs", job_id, "cancel", body={**body, **({"by": owner} if owner else {})})
    render(answer, as_json, _show_cancelled)


def drill(job_id: JobId, owner: Me = "", url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Drill a preemption: give a job's command the notice on purpose, and see whether it saves and resumes.

    It waits until little is at stake: right after a complete checkpoint, or the first steps. The command is then
    started again on the same VM. `costguard job` shows the result.
    """
    answer = ServerClient(url).post("jobs", job_id, "drill", body={"by": owner} if owner else {})
    render(answer, as_json, _show_drilled)


def delete_disk(
    job_id: JobId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    owner: Me = "",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Delete the kept disk of a finished job. Everything saved on it is lost."""
    server = ServerClient(url)
    kept = server.get("jobs", job_id)["kept_disk"]
    if kept is not None and not yes:
        what = f"This deletes {kept['vm']} and its disk of {kept['gib']} GiB, which holds {kept['holds']}."
        typer.confirm(f"{what} Delete it?", abort=True, err=True)
    answer = server.post("jobs", job_id, "delete-disk", body={"by": owner} if owner else {})
    render(answer, as_json, _show_disk_deleted)


def _show_drilled(console: Console, answer: Answer) -> None:
    newest = answer["drills"][0]
    say(console, f"Drill {newest['number']} of {answer['job']['title']}: {newest['text']}.")
    say(console, f"See how it went: costguard job {answer['job']['id']}")


def _expression(grep: str) -> re.Pattern[str] | None:
    try:
        return re.compile(grep) if grep else None
    except re.error as wrong:
        raise typer.BadParameter(f"it is no regular expression: {wrong}.", param_hint="--grep") from None


def stored_lines(
    server: ServerClient, job_id: str, attempt: int | None, is_followed: bool, wait: Callable[[], object]
) -> Iterator[str]:
    """The stored output of one attempt, or of all that reported, in order; followed until the job is over."""
    number, begin = attempt, "start"
    while True:
        detail = server.get("jobs", job_id)  # before the output, so that its end is read after the job's
        is_over = detail["job"]["state"] in OVER
        reported = [one["number"] for one in detail["attempts"] if one["heard_at"] is not None]
        if number is None:
            number = min(reported, default=None)
        is_end = True
        if number is not None:
            answer = server.get("jobs", job_id, "output", attempt=number, begin=begin, lines=10_000)
            yield from answer["output"].split("\n")[:-1]
            begin, is_end = answer["next"], answer["is_end"]
        later = [one for one in reported if attempt is None and number is not None and one > number]
        if is_end and later:
            number, begin = min(later), "start"
        elif is_end and (is_over or not is_followed):
            return
        elif is_end:
            wait()


class _Changes:
    """Prints how a `job` or a `sweep` stands whenever that changes."""

    def __init__(self, noun: str, tell: Speak) -> None:
        self._noun, self._tell, self._said = noun, tell, ""

    def look(self, answer: Any) -> None:
        shown = answer[self._noun]
        line = f"{shown['title']}: {shown['state']}. {sentence(shown['reason'])}"
        if line != self._said:
            self._tell(line)
            self._said = line


def attach(server: ServerClient, job_id: str, tell: Speak, out: TextIO) -> None:
    """Prints a job's output as it comes, and each change of its state, until it is over."""
    changes = _Changes("job", tell)
    for piece in server.each(steps.output(server.url, job_id, None, on_look=changes.look)):
        print(clean_lines(piece.expandtabs()), end="", file=out, flush=True)


def follow(
    server: ServerClient,
    noun: str,
    answer: Answer,
    tell: Speak,
    wait: Callable[[], object],
    is_over: Callable[[Answer], bool],
) -> Answer:
    """Waits until a `job` or a `sweep` is over, also while the server restarts. Prints each change once."""
    changes, trouble = _Changes(noun, tell), ""
    while True:
        if not trouble:
            changes.look(answer)
        if is_over(answer):
            return answer
        wait()
        try:
            answer, trouble = server.get(f"{noun}s", answer[noun]["id"]), ""
        except ServerUnreachable as error:
            if not trouble:
                tell(f"{error.message} The {noun} goes on, and the server is asked again.")
            trouble = error.message


def is_done(detail: Answer) -> bool:
    """Says whether a job is over, or a dev VM is up."""
    job = detail["job"]
    return job["state"] in OVER or (job["kind"] == "dev" and detail["ssh_command"] and job["state"] == "running")


def _state(job: Answer) -> Text:
    if job["kept_disk"] is not None:
        return cell(f"{job['state']}, disk kept", "yellow")
    return cell(job["state"], _STYLES.get(job["state"], ""))


_JOBS = (
    Column("Job", "id"),
    Column("Name", lambda job: job["name"] or "-"),
    Column("Owner", "owner", spare=4),
    Column("Preset", "preset", spare=3),
    Column("State", _state),
    Column("Step", lambda job: "-" if job["step"] is None else f"{job['step']:,}", right=True, spare=2),
    Column("Attempts", "attempts", right=True, spare=1),
    Column(
        "Cost",
        lambda job: cell(amount_text(job["cost"]), "" if job["cost"]["complete"] else "bold red"),
        right=True,
    ),
    Column("Why, and what comes next", lambda job: sentence(job["reason"]), prose=True),
)


def show_jobs(console: Console, answer: Answer, is_filtered: bool) -> None:
    """The table, then each kept disk with its cost."""
    nothing = nothing_fits("job", is_filtered, "`costguard jobs --all` includes finished ones.")
    show_page(console, _JOBS, answer, "jobs", nothing=nothing, order="newest")
    for job in answer["jobs"]:
        if (kept := job["kept_disk"]) is not None:
            bills = disk_bills(kept)
            say(console, f"{job['title']}: its disk is kept: {bills}; costguard delete-disk {job['id']}", "yellow")
    if (disks := answer["kept_disks"])["count"] > 1:
        say(console, f"In all, {disks['count']} disks are kept: {amount_text(disks['monthly'])} a month.", "yellow")


def about_output(answer: Answer) -> str:
    """Says which attempt printed an output, when it was reported, and where the rest of it is."""
    if answer["attempt"] is None:
        return f"Job {answer['job']} has not reported yet. See its state with: costguard job {answer['job']}"
    reported = f", reported at {when(answer['heard_at'])} UTC" if answer["heard_at"] else ""
    attempt, before = answer["attempt"], ""
    if not answer["output"] and attempt > 1:
        before = f" The attempt before it: costguard output {answer['job']} --attempt {attempt - 1}"
    empty = "" if answer["output"] else "It printed nothing. "
    if answer.get("stored"):
        rest = f"All that is stored of it: costguard output {answer['job']} --all"
    elif answer["log"]:
        rest = f"The whole log is on its VM: {answer['log']}"
    else:
        rest = "Its VM is gone: this is all that is left."
    return f"{empty}Attempt {attempt}{reported}. {rest}{before}"


def _show_never_mind(console: Console, answer: Answer) -> None:
    say(console, f"{answer['job']['title']} goes on. No hint at its standstill is given until a new best value.")


def _show_cancelled(console: Console, answer: Answer) -> None:
    job = answer["job"]
    say(console, f"{job['title']}: {sentence(job['reason'])}")
    if job.get("cancel_after_at") and not job["cancel_asked_at"]:
        say(console, "It is cancelled once its next checkpoint is saved.")
    say(console, f"See it with: costguard job {job['id']}")


def _show_disk_deleted(console: Console, answer: Answer) -> None:
    say(console, f"The disk of {answer['job']['title']} is being deleted, with its VM.")
