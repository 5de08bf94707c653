"""`costguard checkpoints`: what lies at a location and which of it would be resumed from, without a server."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from costguard.cli.checkpoints_table import show
from costguard.cli.client import WrongUsage
from costguard.cli.options import print_json
from costguard.cli.tables import console
from costguard.errors import CheckpointLocationWrong
from costguard.model.checkpoint import CheckpointLook, Framework, LookFor

if TYPE_CHECKING:
    from costguard.settings import Settings

_EXAMPLES = """Examples:

  costguard checkpoints gs://runs/llama-7            told by the names

  costguard checkpoints s3://runs/bert --pattern 'ckpt_{step}.pt'

  costguard checkpoints ./out --marker DONE          folders with a file DONE
"""
_ALL = 1_000_000


def register(app: typer.Typer) -> None:
    app.command("checkpoints", epilog=_EXAMPLES)(checkpoints)


def checkpoints(
    location: Annotated[
        str, typer.Argument(metavar="URI", help="gs://bucket/path, s3://bucket/path, a folder, or one file.")
    ],
    framework: Annotated[
        Framework | None,
        typer.Option(
            "--framework", "-f", metavar="NAME", help=f"{', '.join(Framework)}; told by the names if left out."
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
        int, typer.Option("--examine", min=1, metavar="N", help="Look inside so many, and on until one is complete.")
    ] = 10,
    everything: Annotated[bool, typer.Option("--all", help="Look inside every one.")] = False,
    wait: Annotated[
        float, typer.Option("--wait", min=0, max=600, metavar="SECONDS", help="Between the two listings.")
    ] = 1.0,
    path: Annotated[
        Path | None, typer.Option("--config", "-c", help="For endpoints. Default: $COSTGUARD_CONFIG, ./costguard.toml.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Show each checkpoint at a location, why it is complete or not, and which one would be resumed from.

    Lists twice, so that what is still being written is seen to change. Exits 1 when there is nothing to resume from.
    """
    # Only here: other commands need none of this, and start sooner.
    from costguard.main.checkpoints import checkpoints as reached
    from costguard.main.checkpoints import look_twice, settings_if_any

    settings: Settings | None = settings_if_any(path, os.environ)
    look_for = LookFor(framework, pattern, marker)
    try:
        found = look_twice(
            reached(settings, os.environ),
            location,
            look_for,
            _ALL if everything else examine,
            lambda: threading.Event().wait(wait),
        )
    except CheckpointLocationWrong as wrong:
        raise WrongUsage(wrong.message, wrong.what_next) from wrong
    if as_json:
        print_json(_json(found))
    else:
        show(console(), found)
    if found.resume is None:
        raise typer.Exit(1)


def _json(found: CheckpointLook) -> dict[str, Any]:
    return {
        "location": found.location,
        "resume_from": found.resume.resume_from if found.resume else None,
        "step": found.resume.step if found.resume else None,
        "framework": found.resume.framework if found.resume else None,
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
            for one in found.checkpoints
        ],
        "notes": list(found.notes),
    }
