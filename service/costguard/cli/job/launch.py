"""`costguard launch`: quotes a job, asks where it is expensive, launches it and attaches to it."""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from costguard.cli.job import jobs
from costguard.cli.job.file import JobCommand
from costguard.cli.job.launch_options import JobOptions, takes_job
from costguard.cli.job.like import Continues, Like, like_job
from costguard.cli.job.page import show_ssh
from costguard.cli.job.quotes import quoted, show_quoted
from costguard.cli.options import DEFAULT_URL, AsJson, Key, Url
from costguard.cli.server import ServerClient, WrongUsage
from costguard.cli.tables import Answer, clean_lines, render, say
from costguard.errors import Invalid, ServerUnreachable
from costguard.ledger.narrate import sentence

_EXAMPLES = """Examples:

  costguard launch a100 --image us-docker.pkg.dev/lab/train/llama:7 --ceiling 60 -- python train.py --epochs 3

  costguard launch t4 --checkpoint gs://lab/run-7 --local /data/out --resume '--from {checkpoint}' -- python train.py

  costguard launch t4 --secret WANDB_API_KEY=projects/lab/secrets/wandb -- python train.py

  costguard launch t4 --workdir . --setup 'pip install -e .' --follow -- python train.py

  costguard launch --like fb12 h100                the same job on another preset, with checkpoints of its own

  costguard launch job.toml --dry-run              the same options in a file, and what it would cost

  costguard launch t4 --dev --wait                 a VM to work on; you are reminded when you forget it
"""
_POLL_S = 5


def register(app: typer.Typer) -> None:
    app.command("launch", epilog=_EXAMPLES, cls=JobCommand)(launch)


@takes_job
def launch(
    job: JobOptions,
    context: typer.Context,
    like: Like = "",
    continues: Continues = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what it would cost, and launch nothing.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print its state and output until it is finished; exits 1 as --wait does.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Wait until it is finished (exits 1 when it did not succeed); a dev VM: until it is up."
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask, however much it may cost. Only a terminal is asked.")
    ] = False,
    key: Key = "",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Launch a job: a command that is run to its end on as many VMs as it takes, or a VM to work on."""
    server = ServerClient(url)
    body = _body(server, job, context, like, continues)
    if dry_run:
        show_quoted(quoted(server, job, body), as_json)
        return
    if not yes and not as_json and sys.stdin.isatty() and sys.stderr.isatty():
        _ask(quoted(server, job, body))
    answer = posted(server, "jobs", request(server, job, body), key or secrets.token_hex(16))
    if follow and not job["dev"]:
        answer = _attached(server, answer, to_stdout=not as_json)
    elif wait or follow:
        answer = _awaited(server, answer, _discard if as_json else tell)
    render(answer, as_json, _show_launched)
    if (wait or follow) and answer["job"]["state"] not in jobs.GOOD:
        raise typer.Exit(1)


def _body(server: ServerClient, job: JobOptions, context: typer.Context, like: str, continues: bool) -> dict[str, Any]:
    """The request as it was typed, or like another job's; then what was copied is said. Raises WrongUsage."""
    if not like:
        if continues:
            raise WrongUsage("--continue goes with --like alone.", "Say which job to go on from: --like JOB.")
        return job.body
    made = like_job(server, like, job, context, continues)
    for line in made.lines:
        tell(line)
    return made.body


def request(server: ServerClient, job: JobOptions, given: Mapping[str, Any]) -> dict[str, Any]:
    """The request for a job; its work directory is packed and sent first. Raises WrongUsage."""
    body = dict(given)
    if job.workdir:
        from costguard.cli.job import code  # only here: packing loads what no other command needs

        try:
            body["code"] = code.sent(server, Path(job.workdir).expanduser(), tell)
        except Invalid as wrong:
            raise WrongUsage(f"--workdir: {wrong.message}", wrong.what_next) from None
    return body


def _ask(quote: Answer) -> None:
    """Asks for a confirmation where the server would. A launch that is refused says so itself."""
    if quote["question"] and not quote["refusals"]:
        typer.confirm(f"{clean_lines(quote['question'])} Continue?", abort=True, err=True)


def posted(server: ServerClient, path: str, body: dict[str, Any], key: str, verb: str = "launches") -> Answer:
    """Returns the answer to a request under a key. Raises ServerUnreachable with how to repeat it safely."""
    try:
        answer: Answer = server.post(path, body=body, key=key)
    except ServerUnreachable as error:
        again = f"Repeating the command with --key {key} {verb} nothing twice, whatever became of this request."
        raise ServerUnreachable(error.message, f"{error.what_next} {again}") from None
    return answer


def _awaited(server: ServerClient, answer: Answer, speak: jobs.Speak) -> Answer:
    pause = threading.Event()
    try:
        return jobs.follow(server, "job", answer, speak, lambda: pause.wait(_POLL_S), jobs.is_done)
    except KeyboardInterrupt:
        speak(f"The job goes on. See it with: costguard job {answer['job']['id']}")
        raise


def _attached(server: ServerClient, answer: Answer, *, to_stdout: bool) -> Answer:
    """States go to standard error; the output, too, where standard output is for JSON."""
    job_id = answer["job"]["id"]
    try:
        jobs.attach(server, job_id, tell, sys.stdout if to_stdout else sys.stderr)
    except KeyboardInterrupt:
        tell(f"The job goes on. Attach to it again with: costguard output {job_id} --follow")
        raise
    latest: Answer = server.get("jobs", job_id)
    return latest


def _show_launched(console: Console, answer: Answer) -> None:
    job = answer["job"]
    say(console, f"{job['title']}  {job['id']}  {job['state']}", "bold")
    say(console, sentence(job["reason"]))
    if answer["ssh_command"]:
        show_ssh(console, answer)
    elif job["kind"] == "dev":
        say(console, f"How to reach it, once it is up: costguard job {job['id']}")
    elif job["state"] in jobs.OVER:
        say(console, f"See it with: costguard job {job['id']}")
    else:
        say(console, f"See it with: costguard job {job['id']}; cancel it with: costguard cancel {job['id']}")


def tell(line: str) -> None:
    print(clean_lines(line), file=sys.stderr, flush=True)


def _discard(_: str) -> None:
    """Prints no progress, with --json."""
