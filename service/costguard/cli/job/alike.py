"""`costguard alike`: what runs of a job's script cost on each machine."""

from __future__ import annotations

import typer
from rich.console import Console

from costguard.cli.options import DEFAULT_URL, AsJson, JobId, Url
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, rate, render, say, show_table
from costguard.ledger.narrate import sentence


def register(app: typer.Typer) -> None:
    app.command("alike", epilog="Example:  costguard alike j7k2m9q4")(alike)


def alike(job_id: JobId, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Compare what a job's script cost on each machine: per 1,000 steps, and until its metric was as good.

    Runs of the same code, or of the same command line, are compared.
    """
    render(ServerClient(url).get("jobs", job_id, "alike"), as_json, show_alike)


def show_alike(console: Console, answer: Answer) -> None:
    show_table(console, _COLUMNS, answer["machines"])
    if answer["text"]:
        say(console, sentence(answer["text"]), "bold")
    elif len(answer["machines"]) < 2:
        machine = answer["machines"][0]
        say(console, f"No run of this script on another machine is known. Launch one with: {_launch(answer, machine)}")
    if answer["target"] is not None:
        metric = answer["metric"]
        say(console, f"As good: {metric['name']} {answer['target']:.6g} ({metric['better']} is better).", "dim")
    if any(not job["is_same_command"] for machine in answer["machines"] for job in machine["jobs"]):
        say(console, "Some of these runs had other options: a step may do another amount of work in them.", "dim")


def _launch(answer: Answer, machine: Answer) -> str:
    return f"costguard launch --like {answer['job']} PRESET (other than {machine['preset']})"


def _dollars(amount: str | None) -> str:
    return "-" if amount is None else rate(amount)


_COLUMNS = (
    Column("Preset", "preset"),
    Column("VM", "machine_type", spare=1),
    Column("Runs", lambda one: str(len(one["jobs"])), right=True, spare=2),
    Column("Steps", lambda one: "-" if one["steps"] is None else f"{one['steps']:,}", right=True, spare=3),
    Column("$/1,000 steps", lambda one: _dollars(one["cost_per_1000_steps"]), right=True),
    Column("Best", lambda one: "-" if one["best"] is None else f"{one['best']:.6g}", right=True, spare=4),
    Column("$ until as good", lambda one: _dollars(one["cost_to_reach"]), right=True),
)
