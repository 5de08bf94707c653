"""`costguard checkpoints`: the checkpoints at a location, and which would be resumed from, without a server."""

from __future__ import annotations

import os
import threading
from typing import Annotated, Any

import typer
from rich.console import Console

from costguard.cli.options import AsJson, Config, print_json
from costguard.cli.server import WrongUsage
from costguard.cli.tables import Column, cell, console, say, show_table
from costguard.errors import CheckpointLocationTooLarge, CheckpointLocationWrong
from costguard.model.words import count_text
from costguard_vm.model.checkpoint import Checkpoint, CheckpointLook, CheckpointState, Framework, LookFor

_EXAMPLES = """Examples:

  costguard checkpoints gs://runs/llama-7            recognised by the file names

  costguard checkpoints s3://runs/bert --pattern 'ckpt_{step}.pt'

  costguard checkpoints ./out --marker DONE          folders with a file DONE
"""
_ALL = 1_000_000
_MOST_FILES = 20_000  # that are listed unasked: a run's folder has fewer, and a wrong one is named at once
_MOST_REASONS = 3
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_STYLES = {
    CheckpointState.COMPLETE: "green",
    CheckpointState.TORN: "bold red",
    CheckpointState.CHANGING: "yellow",
    CheckpointState.UNREAD: "dim",
}


def register(app: typer.Typer) -> None:
    app.command("checkpoints", epilog=_EXAMPLES)(checkpoints)


def checkpoints(
    location: Annotated[
        str, typer.Argument(metavar="URI", help="gs://bucket/path, s3://bucket/path, a folder, or one file.")
    ],
    framework: Annotated[
        Framework | None,
        typer.Option(
            "--framework", "-f", metavar="NAME", help=f"{', '.join(Framework)}. Default: recognised by the file names."
        ),
    ] = None,
    pattern: Annotated[
        str,
        typer.Option("--pattern", metavar="PATH", help="Path of plain files, with {step}; * is anything in a name."),
    ] = "",
    marker: Annotated[
        str, typer.Option("--marker", metavar="NAME", help="File that is written last, in a checkpoint's folder.")
    ] = "",
    examine: Annotated[
        int,
        typer.Option(
            "--examine", min=1, metavar="N", help="Read this many checkpoints, and more until one is complete."
        ),
    ] = 10,
    everything: Annotated[bool, typer.Option("--all", help="Read every checkpoint, among more files.")] = False,
    wait: Annotated[
        float, typer.Option("--wait", min=0, max=600, metavar="SECONDS", help="Seconds between the two listings.")
    ] = 1.0,
    path: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show each checkpoint at a location, why it is complete or not, and which one would be resumed from.

    Lists twice, to see what is still being written, and at most 20,000 files without --all. Exits 1 when there is
    nothing to resume from.
    """
    # Only here: other commands need none of this, and start sooner.
    from costguard.main.checkpoints import MOST_FILES, look_twice, settings_if_any
    from costguard.main.checkpoints import checkpoints as reached

    try:
        look = look_twice(
            reached(settings_if_any(path, os.environ), os.environ, MOST_FILES if everything else _MOST_FILES),
            location,
            LookFor(framework, pattern, marker),
            _ALL if everything else examine,
            lambda: threading.Event().wait(wait),
        )
    except CheckpointLocationTooLarge as wrong:
        more = "" if everything else f" If it is one, --all lists up to {MOST_FILES:,} files."
        raise WrongUsage(wrong.message, wrong.what_next + more) from wrong
    except CheckpointLocationWrong as wrong:
        raise WrongUsage(wrong.message, wrong.what_next) from wrong
    if as_json:
        print_json(_json(look))
    else:
        _show(console(), look)
    if look.resume is None:
        raise typer.Exit(1)


def _json(look: CheckpointLook) -> dict[str, Any]:
    return {
        "location": look.location,
        "resume_from": look.resume.resume_from if look.resume else None,
        "step": look.resume.step if look.resume else None,
        "framework": look.resume.framework if look.resume else None,
        "checkpoints": [
            {
                "name": one.name,
                "framework": one.framework,
                "step": one.step,
                "state": one.state,
                "reasons": list(one.reasons),
                "written_at": one.written_at.isoformat(),
                "bytes": one.size,
                "files": one.files,
                "resume_from": one.resume_from,
            }
            for one in look.checkpoints
        ],
        "notes": list(look.notes),
    }


def _why(checkpoint: Checkpoint) -> str:
    more = len(checkpoint.reasons) - _MOST_REASONS
    return " ".join(checkpoint.reasons[:_MOST_REASONS]) + (f" And {more} more." if more > 0 else "")


def size_text(size: int) -> str:
    """`512 B`, `1.5 kB`, `13 GB`: powers of a thousand, as clouds bill."""
    shown, unit = float(size), 0
    while shown >= 999.5 and unit < len(_UNITS) - 1:
        shown, unit = shown / 1000, unit + 1
    return f"{shown:.1f} {_UNITS[unit]}" if unit and shown < 9.95 else f"{shown:.0f} {_UNITS[unit]}"


_COLUMNS = (
    Column("Step", lambda one: "?" if one.step is None else f"{one.step:,}", right=True),
    Column("Checkpoint", lambda one: one.name),
    Column("Framework", lambda one: one.framework, spare=2),
    Column("State", lambda one: cell(one.state, _STYLES[one.state])),
    Column("Written (UTC)", lambda one: f"{one.written_at:%Y-%m-%d %H:%M:%S}"),
    Column("Size", lambda one: size_text(one.size), right=True, spare=3),
    Column("Files", lambda one: one.files, right=True, spare=1),
    Column("Why", _why, prose=True),
)


def _show(out: Console, look: CheckpointLook) -> None:
    if look.checkpoints:
        show_table(out, _COLUMNS, look.checkpoints)
        out.print()
        if unread := sum(one.state is CheckpointState.UNREAD for one in look.checkpoints):
            say(out, f"Not read: {count_text(unread, 'older one')}. --all reads them too.", "dim")
    for note in look.notes:
        say(out, note, "yellow")
    if look.resume is not None:
        step = "" if look.resume.step is None else f", step {look.resume.step:,}"
        say(out, f"Would be resumed from: {look.resume.resume_from}{step}", "bold")
