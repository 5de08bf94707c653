"""`costguard diagnose`: what bounds a job, what to do about it, and what that saves."""

from __future__ import annotations

import typer
from rich.console import Console

from costguard.cli.options import DEFAULT_URL, AsJson, JobId, Url
from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, Column, render, say, show_table, when
from costguard.ledger.narrate import sentence

_SHOWN = 10


def register(app: typer.Typer) -> None:
    app.command("diagnose", epilog="Example:  costguard diagnose j7k2m9q4")(diagnose)


def diagnose(job_id: JobId, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Find a job's bottleneck (its input, its own code, saving, or the GPU), with figures, advice and saving.

    A verdict holds after two equal windows of five minutes. Nothing acts on it.
    """
    render(ServerClient(url).get("jobs", job_id, "diagnosis"), as_json, show_diagnosis)


def show_diagnosis(console: Console, answer: Answer) -> None:
    held = answer["held"]
    if held is None:
        say(console, f"What bounds job {answer['job']} is not known yet. {answer['why_none']}")
        if answer["advice"]:
            say(console, f"Advice: {answer['advice']}.")
    else:
        was = "is" if answer["is_current"] else "was"
        say(console, f"Job {answer['job']} {was} bound by {held['text']}", "bold")
        say(console, sentence(held["why"]))
        for number in held["numbers"]:
            say(console, f"  {number['text']:>10}  {number['name']}")
        for name, text in (("Advice", answer["advice"]), ("Saves", answer["saving_text"])):
            if text:
                say(console, f"{name}: {text}.")
    if (straggler := answer.get("straggler")) is not None:  # servers of an earlier version do not send it
        say(console, f"Straggler: {straggler['text']}.", "yellow")
        for number in straggler["numbers"]:
            say(console, f"  {number['text']:>10}  {number['name']}")
    if answer.get("checkpoints"):  # servers of an earlier version do not send it
        say(console, f"Checkpoints: {answer['checkpoints']}.")
    if answer["achieved_text"]:
        say(console, f"Since the change: {answer['achieved_text']}.", "green")
    if answer["stretches"]:
        console.print()
        show_table(console, _COLUMNS, answer["stretches"][:_SHOWN])


_COLUMNS = (
    Column("From (UTC)", lambda one: when(one["since"])),
    Column("To", lambda one: when(one["until"]), spare=2),
    Column("Bound by", "text"),
    Column("Share", lambda stretch: "-" if stretch["share"] is None else f"{stretch['share']:.0%}", right=True),
    Column("Windows", "windows", right=True, spare=3),
    Column(
        "Steps/s", lambda one: "-" if one["steps_per_s"] is None else f"{one['steps_per_s']:.2f}", right=True, spare=1
    ),
)
