"""`costguard jobs`, `costguard job`, `costguard output`, `costguard cancel` and `costguard delete-disk`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from costguard.cli import complete, jobs_table
from costguard.cli.client import Server
from costguard.cli.format import clean_lines
from costguard.cli.options import DEFAULT_URL, AsJson, Limit, Me, Url, is_asked, print_json
from costguard.cli.tables import console
from costguard.model.job import JobKind, JobState

_EXAMPLES = """Examples:

  costguard jobs                            those that are not over, or whose disk is kept

  costguard jobs --all --state failed       what went wrong, the latest first

  costguard job j7k2m9q4                    one job: its attempts, checkpoints, what it lost and what comes next
"""

JobId = Annotated[
    str, typer.Argument(metavar="ID", help="The job's id, such as j7k2m9q4.", autocompletion=complete.jobs)
]


def register(app: typer.Typer) -> None:
    app.command("jobs", epilog=_EXAMPLES)(jobs)
    app.command("job", epilog="Example:  costguard job j7k2m9q4")(job)
    app.command("output", epilog="Example:  costguard output j7k2m9q4 --attempt 2")(output)
    app.command("cancel", epilog="Example:  costguard cancel j7k2m9q4 --reason 'wrong data'")(cancel)
    app.command("delete-disk", epilog="Example:  costguard delete-disk j7k2m9q4")(delete_disk)


def jobs(
    state: Annotated[JobState | None, typer.Option("--state", help="Only this state, over or not.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Only this owner's.")] = None,
    preset: Annotated[str | None, typer.Option("--preset", help="Only this preset.")] = None,
    project: Annotated[str | None, typer.Option("--project", "-p", help="Only this project.")] = None,
    kind: Annotated[JobKind | None, typer.Option("--kind", help="training or dev.")] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also those that are over.")] = False,
    limit: Limit = 50,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Jobs, the newest first: whose, how they stand and why, attempts, and dollars so far."""
    filters = {"state": state, "owner": owner, "preset": preset, "project": project, "kind": kind}
    only_open = None if everything or state is not None else True
    answer = Server(url).pages("jobs", "jobs", limit, open=only_open, or_disk_kept=only_open, **filters)
    asked = is_asked(*filters.values()) or bool(only_open)
    print_json(answer) if as_json else jobs_table.show(console(), answer, asked)


def job(job_id: JobId, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """One job: its attempts in time, checkpoints, work at risk and lost, what it costs, and what comes next."""
    answer = Server(url).get("jobs", job_id)
    print_json(answer) if as_json else jobs_table.show_job(console(), answer)


def output(
    job_id: JobId,
    attempt: Annotated[
        int | None, typer.Option("--attempt", min=1, help="Of this attempt; the last that spoke.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """The last part of what a job's command printed, as its VM told it."""
    answer = Server(url).get("jobs", job_id, "output", attempt=attempt)
    if as_json:
        print_json(answer)
        return
    if answer["output"]:
        print(clean_lines(answer["output"].rstrip("\n").expandtabs()))
    print(clean_lines(jobs_table.about_output(answer)), file=sys.stderr)


def cancel(
    job_id: JobId,
    reason: Annotated[str, typer.Option("--reason", help="For whoever reads it later.")] = "",
    delete_disk: Annotated[
        bool,
        typer.Option("--delete-disk", help="Also delete a disk that holds the only copy of what it saved."),
    ] = False,
    owner: Me = "",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Cancel a job: its command may save, then its VM is deleted. Asking twice is harmless.

    Where it saves on its VM's own disk, the VM is stopped instead, and its disk kept: --delete-disk agrees to lose it.
    """
    body: dict[str, object] = {"reason": reason, **({"delete_disk": True} if delete_disk else {})}
    answer = Server(url).post("jobs", job_id, "cancel", body={**body, **({"by": owner} if owner else {})})
    print_json(answer) if as_json else jobs_table.show_cancelled(console(), answer)


def delete_disk(
    job_id: JobId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    owner: Me = "",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Delete the disk that is kept of a job that is over: everything that it saved there is lost."""
    server = Server(url)
    kept = server.get("jobs", job_id)["kept_disk"]
    if kept is not None and not yes:
        what = f"This deletes {kept['vm']} and its disk of {kept['gib']} GiB, which holds {kept['holds']}."
        typer.confirm(f"{what} Delete it?", abort=True, err=True)
    answer = server.post("jobs", job_id, "delete-disk", body={"by": owner} if owner else {})
    print_json(answer) if as_json else jobs_table.show_disk_deleted(console(), answer)
