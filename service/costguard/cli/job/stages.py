"""`costguard stages`: data that is kept near the VMs, what storing it costs, and who used it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from costguard.cli.options import DEFAULT_URL, AsJson, Me, Url
from costguard.cli.server import ServerClient, WrongUsage
from costguard.cli.tables import Answer, Column, dollars, render, say, show_table, when
from costguard.model.words import count_text, size_text

_EXAMPLES = """Examples:

  costguard stages                        staged data, what its storage costs, and the jobs that use it

  costguard stages --delete 4f0e19a2c7    delete a stage that no open job uses
"""
_SHOWN = 12  # characters of a digest


def register(app: typer.Typer) -> None:
    app.command("stages", epilog=_EXAMPLES)(stages)


def stages(
    delete: Annotated[
        str, typer.Option("--delete", metavar="DIGEST", help="Delete this stage; the digest's beginning is enough.")
    ] = "",
    owner: Me = "",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List data that is fetched once and kept near the VMs, with what it stores and what left its source."""
    server = ServerClient(url)
    answer = server.get("stages")
    if not delete:
        render(answer, as_json, show_stages)
        return
    digests = [stage["digest"] for stage in answer["stages"] if stage["digest"].startswith(delete)]
    if len(digests) != 1:
        raise WrongUsage(
            f"--delete: {count_text(len(digests), 'stage begins', 'stages begin')} with {delete!r}.",
            "Name one of those that costguard stages lists.",
        )
    render(server.post("stages", digests[0], "delete", body={"by": owner} if owner else {}), as_json, show_deletion)


def show_stages(console: Console, answer: Answer) -> None:
    rows = answer["stages"]
    if not rows:
        text = "Nothing is staged." if answer["is_set"] else "No bucket is set for stages: see [stage] in the settings."
        say(console, text)
        return
    show_table(console, _COLUMNS, rows)
    console.print()
    for stage in rows:
        jobs = ", ".join(f"{use['job']} ({use['owner']})" for use in stage["uses"][:5]) or "no job"
        say(console, f"{stage['digest'][:_SHOWN]} at {stage['place']}: used by {jobs}.")
        if stage["error"]:
            say(console, f"{stage['digest'][:_SHOWN]}: {stage['error']}", "bold red")
    if unknown := sum(stage["a_month"] is None for stage in rows):
        words = "Name the bucket's location under [stage] in the settings."
        say(console, f"The price of storage is not known of {count_text(unknown, 'stage')}. {words}")


def show_deletion(console: Console, answer: Answer) -> None:
    stage = answer["stage"]
    say(console, f"The staged copy of {stage['source']} is deleted within minutes: {size_text(stage['staged'])}.")


def _stored(stage: Answer) -> str:
    whole = stage["staged"] == stage["bytes"]
    return size_text(stage["staged"]) if whole else f"{size_text(stage['staged'])} of {size_text(stage['bytes'])}"


_COLUMNS = (
    Column("Stage", lambda stage: stage["digest"][:_SHOWN]),
    Column("Source", lambda stage: stage["source"]),
    Column("State", lambda stage: f"{stage['state']}, in use" if stage["in_use"] else stage["state"]),
    Column("Stored", _stored, right=True),
    Column("From source", lambda stage: size_text(stage["from_source"]), right=True, spare=1),
    Column("A month", lambda stage: "unknown" if stage["a_month"] is None else dollars(stage["a_month"]), right=True),
    Column("Last used", lambda stage: when(stage["used_at"]), spare=2),
)
