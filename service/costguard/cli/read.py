"""`costguard read`: why a run ended, which worker straggles, who keeps a VM, what errors and events say; from files."""

from __future__ import annotations

import csv
import json
from typing import Annotated, TextIO

import typer

from costguard.cli.command_line import CommandLine
from costguard.cli.job.progress import LogFile, finite_number, opened
from costguard.cli.options import AsJson
from costguard.cli.tables import Column, console, say, show_table
from costguard.errors import Invalid
from costguard.model.words import list_text
from costguard_vm.progress.stragglers import StepTime, read_workers

read = CommandLine(no_args_is_help=True, help="Read files of your own, without a server.")

_CHUNK = 1 << 20  # characters
_EXAMPLES = """Examples:

  costguard read end train.log

  journalctl -k -b -1 | costguard read end - --json
"""


def register(app: typer.Typer) -> None:
    app.add_typer(read, name="read")


@read.command("end", epilog=_EXAMPLES)
def end(file: LogFile, as_json: AsJson = False) -> None:
    """Say why a run ended, or that it only looks dead, from its output or a kernel's log.

    Knows what PyTorch, NCCL, CUDA, DeepSpeed, JAX, TensorFlow, launchers and the kernel print. The first error counts,
    not the last. What the log does not prove is unknown: silence is no end.
    """
    from costguard.ends.reader import MOST_READ, read_end  # only here: its many patterns are compiled on import
    from costguard.ends.words import end_words, retry_words

    with opened(file) as source:
        reading = read_end(_last(source, MOST_READ))
    if as_json:
        print(json.dumps(reading.as_json()))
        return
    say(console(), end_words(reading), "bold")
    say(console(), retry_words(reading))
    if reading.evidence:
        say(console(), reading.evidence, "dim")


@read.command("stragglers", epilog="Example:  costguard read stragglers steps.csv --json")
def stragglers(file: LogFile, as_json: AsJson = False) -> None:
    """Say which worker of a distributed training became slower than usual, from when to when, and whether all are even.

    FILE is CSV with the columns worker (or rank), time (or step) and step_time (or seconds, batch_time).
    """
    with opened(file) as source:
        reading = read_workers(_step_times(source, file))
    if as_json:
        uneven = reading.uneven._asdict() if reading.uneven is not None else None
        print(json.dumps({"stragglers": [one._asdict() for one in reading.stragglings], "uneven": uneven}))
        return
    for one in reading.stragglings:
        where = f"from {one.begins:.0%} to {one.ends:.0%} of the run (time {one.since:g} to {one.until:g})"
        say(console(), f"Worker {one.worker} was {one.times:.1f} times as slow as usual, {where}.", "bold")
    if not reading.stragglings:
        say(console(), f"No worker became slower than usual{f': {reading.why_none}' if reading.why_none else ''}.")
    if reading.uneven is not None:
        say(
            console(),
            f"Uneven workers: worker {reading.uneven.slowest} is the slowest all along, and "
            f"{reading.uneven.useful:.0%} of the workers' time is not spent on waiting for it.",
        )


@read.command(
    "instance",
    epilog="Example:  gcloud compute instances describe vm-1 --format json | costguard read instance - --json",
)
def instance(file: LogFile, as_json: AsJson = False) -> None:
    """Say who keeps a VM: a group, a service of Google, another tool, a job, or nobody.

    FILE is the instance as Compute Engine's API gives it. With --json: keeper (gke, group, dataproc, workbench, batch,
    dataflow, composer, workstation, tool, job, nobody or unknown), cluster, pool, group, and the evidence: the labels
    and metadata items that say so.
    """
    from costguard.keepers.instance_file import MOST_READ, read_instance

    with opened(file) as source:
        name, keeper = read_instance(source.read(MOST_READ + 1), file)
    if as_json:
        print(json.dumps(keeper.as_json()))
        return
    say(console(), keeper.in_words(name), "bold")
    if keeper.kind.keeps:
        say(console(), f"Costguard does not stop it: {keeper.effect}. Instead, {keeper.advice(name, 'PROJECT')}.")
    if keeper.evidence:
        say(console(), f"Evidence: {list_text(keeper.evidence)}.", "dim")


_ERROR_EXAMPLES = """Examples:

  gcloud compute instances create vm-1 2>&1 | costguard read error -

  costguard read error answer.json --json
"""


@read.command("error", epilog=_ERROR_EXAMPLES)
def error(file: LogFile, as_json: AsJson = False) -> None:
    """Say what an error of Google's or Slack's means, and the command that mends it.

    FILE is an answer's body, an exception, what gcloud or Terraform printed, or an entry of the audit log. With --json:
    kind (api_disabled, permission, scope, billing, quota, stockout, reservation, org_policy, vpc_service_controls,
    credentials, slack_scope, slack_channel, slack_token, rate_limited, request, not_found or unknown), service,
    missing (what lacks, by name), mend, sentence. Of an unknown error it gives the error's own words, and no guess.
    """
    from costguard.refusals.normal_form import MOST_READ as MOST_OF_AN_ERROR
    from costguard.refusals.reader import explain

    with opened(file) as source:
        reading = explain(source.read(MOST_OF_AN_ERROR))
    if as_json:
        print(json.dumps(reading.as_json()))
        return
    say(console(), reading.sentence, "bold")
    say(console(), reading.mend or "Costguard does not know this error: these are its own words.")
    who = "" if reading.service == "unknown" else f" of {reading.service}"
    say(console(), f"Kind: {reading.kind.value}{who}.", "dim")


_EVENTS_EXAMPLES = """Examples:

  gcloud logging read 'protoPayload.methodName:"nstances."' --format json > entries/today.json

  costguard read events entries --json
"""
_EVENTS = (
    Column("FILE", "file", spare=2),
    Column("KIND", lambda row: row["problem"] or row["kind"]),
    Column("VM", lambda row: row.get("name") or row["instance_id"] or ""),
    Column("WHO", lambda row: row["who"] or ""),
    Column("MACHINE TYPE", lambda row: " ".join(filter(None, (row["machine_type"], row["provisioning"])))),
    Column("AT", lambda row: row["at"] or ""),
    Column("METHOD", lambda row: row.get("method", ""), spare=1),
)


@read.command("events", epilog=_EVENTS_EXAMPLES)
def events(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A folder of log entries as JSON, or one file.")],
    as_json: AsJson = False,
) -> None:
    """Say what entries of Compute Engine's audit log mean: which VM began, ended or changed, when, and by whom.

    Each *.json, *.jsonl or *.ndjson file holds one entry of Cloud Logging, several one after the other, or a list.
    With --json, a list: file, kind (created, deleted, started, stopped, preempted, host_error, migrated, repaired,
    changed, refused or noise), instance_id, who (null where a service of Google asked for it: see principal),
    machine_type and provisioning (of first entries alone), at (when it happened, not when the entry was written),
    ended_at, and problem (why a torn entry could not be read).
    """
    from costguard.ledger.feed.files import entries_of_files

    rows = [entry.as_json() for entry in entries_of_files(folder)]
    if as_json:
        print(json.dumps(rows))
        return
    show_table(console(), _EVENTS, rows)


_WORKER, _AT = ("worker", "rank"), ("time", "step")
_TOOK = ("step_time", "seconds", "batch_time", "batch_time_norm")


def _step_times(source: TextIO, file: str) -> list[StepTime]:
    rows = csv.DictReader(source)
    names = rows.fieldnames or []
    worker, at, took = (next((one for one in names_of_it if one in names), "") for names_of_it in (_WORKER, _AT, _TOOK))
    if not (worker and at and took):
        raise Invalid(
            f"{file} lacks a worker, a time or a step time; it has {', '.join(names) or 'no columns'}.",
            "Write a first line: worker,time,step_time",
        )
    return [
        StepTime(row[worker] or "", moment, length)
        for row in rows
        if (moment := finite_number(row[at])) is not None and (length := finite_number(row[took])) is not None
    ]


def _last(source: TextIO, most: int) -> str:
    """The last `most` characters of a file of any size, in bounded memory."""
    text = ""
    while chunk := source.read(_CHUNK):
        text = (text + chunk)[-most:]
    return text
