"""`costguard lineage`: what a job started from and what started from it, with the cost of each."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from rich.console import Console

from costguard.cli.options import DEFAULT_URL, AsJson, JobId, Url
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, amount_text, render, say, show_table, show_values
from costguard.model.words import count_text


def register(app: typer.Typer) -> None:
    app.command("lineage", epilog="Example:  costguard lineage j7k2m9q4")(lineage)


def lineage(job_id: JobId, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Show what a job started from and what started from it, such as a pretraining and its fine-tunings, with costs.

    A job starts from another where its location held a checkpoint, or where an input, its command or its environment
    names an address at which the other stores.
    """
    render(ServerClient(url).get("jobs", job_id, "lineage"), as_json, show_lineage)


def show_lineage(console: Console, answer: Answer) -> None:
    job, above, under = answer["job"], answer["ancestors"], answer["descendants"]
    show_table(console, _COLUMNS, [*above, job, *under])
    show_values(console, _sums(answer))
    for one in answer["unknown"]:
        say(console, f"UNKNOWN: {one['address']} was there before, and no known job saved it.", "yellow")
    if not above and not under and not answer["unknown"]:
        say(console, "It started from no other job, and no other job has started from it.")
    if not answer["is_whole"]:
        say(console, "There are more jobs than are shown here, and the sums are those of these alone.", "yellow")


def _sums(answer: Answer) -> Iterator[tuple[str, str]]:
    if answer["ancestors"]:
        yield "with what it started from", amount_text(answer["upward"])
    if answer["descendants"]:
        yield "with what started from it", amount_text(answer["downward"])
    if answer["ancestors"] and answer["descendants"]:
        yield (
            f"all {count_text(len(answer['ancestors']) + len(answer['descendants']) + 1, 'job')}",
            amount_text(answer["total"]),
        )


def _named(one: Answer) -> str:
    branch = f"{'  ' * (one['depth'] - 1)}└ " if one["depth"] > 0 else ""
    return f"{branch}{one['title']}{' (this job)' if one['depth'] == 0 else ''}"


def _origins(one: Answer) -> str:
    return ", ".join(f"{origin['uses']} {origin['address']}" for origin in one["origins"])


_COLUMNS = (
    Column("Job", _named),
    Column("Id", "id"),
    Column("State", "state", spare=2),
    Column("Owner", "owner", spare=3),
    Column("Starts from", _origins, spare=1),
    Column("Cost", lambda one: amount_text(one["cost"]), right=True),
    Column("With all below", lambda one: amount_text(one["with_below"]) if one["depth"] > 0 else "", right=True),
)
