"""`costguard executions`: what executions of workflows cost, by the labels of their jobs and VMs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from costguard.cli.options import DEFAULT_URL, AsJson, Url
from costguard.cli.server import ServerClient, WrongUsage
from costguard.cli.tables import Answer, Column, amount_text, render, say, show_table
from costguard.model.words import count_text, list_text

_EXAMPLES = """Examples:

  costguard executions                                    the latest, of all workflows

  costguard executions --label flyte-execution=f3b1c7d2   one execution, with its jobs
"""


def register(app: typer.Typer) -> None:
    app.command("executions", epilog=_EXAMPLES)(executions)


def executions(
    label: Annotated[
        str, typer.Option("--label", metavar="KEY[=VALUE]", help="Only executions by this label, or only this one.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=500, help="The most to show.")] = 20,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show executions of workflows, such as Flyte's, with the cost of all of their jobs and VMs.

    An execution is known by the value of a label; the settings name the labels, as spend.workflow_labels.
    """
    key, sign, value = label.partition("=")
    if sign and not (key and value):
        raise WrongUsage("--label: a key or a value is missing.", "Write --label KEY or --label KEY=VALUE.")
    answer = ServerClient(url).get("executions", label=key or None, value=value or None, limit=limit)
    render(answer, as_json, show_executions, bool(value))


def show_executions(console: Console, answer: Answer, with_jobs: bool = False) -> None:
    rows = answer["executions"]
    if not rows:
        names = list_text(answer["labels"])
        say(console, f"No job and no VM has a label that names an execution: {names}.")
        return
    show_table(console, _COLUMNS, rows)
    if answer["count"] > len(rows):
        say(console, f"{len(rows)} of {count_text(answer['count'], 'execution')}; --limit shows more.", "dim")
    if with_jobs:
        show_table(console, _JOBS, [job for one in rows for job in one["jobs"]])


def _vms(one: Answer) -> str:
    running = f" ({one['running_vms']} running)" if one["running_vms"] else ""
    return f"{one['vms']}{running}"


_COLUMNS = (
    Column("Label", "label", spare=2),
    Column("Execution", "value"),
    Column("State", "state"),
    Column("Workflow", lambda one: one["labels"].get("flyte-workflow", ""), spare=1),
    Column("Jobs", lambda one: str(len(one["jobs"])), right=True),
    Column("VMs", _vms, right=True),
    Column("Began", "first_at", spare=3),
    Column("Ended", lambda one: one["last_at"] or "-", spare=4),
    Column("Cost", lambda one: amount_text(one["cost"]), right=True),
)
_JOBS = (Column("Job", "id"), Column("State", "state"), Column("Submitted", "created_at"))
