"""`costguard slack test`: whether Slack is set up so that everything works, without a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from costguard.cli.format import clean
from costguard.cli.options import print_json
from costguard.cli.tables import console, say

slack = typer.Typer(no_args_is_help=True, help="The connection to Slack.")

_EPILOG = """Examples:

  costguard slack test              look, and write nothing

  costguard slack test --message    also post a message to the channel
"""


def register(app: typer.Typer) -> None:
    app.add_typer(slack, name="slack")


@slack.command("test", epilog=_EPILOG)
def check(
    path: Annotated[
        Path | None, typer.Option("--config", "-c", help="Default: $COSTGUARD_CONFIG, else ./costguard.toml.")
    ] = None,
    with_message: Annotated[bool, typer.Option("--message", help="Post a message, so that people see one.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check token, scopes, channels and the way back in, and say what is missing.

    Exits 1 when something is.
    """
    from costguard.clock import SystemClock  # only here: other commands need none of this, and start sooner
    from costguard.main.checkup import slack_checkup
    from costguard.settings import load

    found = slack_checkup(load(path, os.environ), SystemClock().now(), with_message=with_message)
    if as_json:
        print_json({"findings": [{"ok": one.is_ok, "finding": one.sentence, "next": one.what_next} for one in found]})
    else:
        out = console()
        for one in found:
            say(out, f"{'ok ' if one.is_ok else 'NOT'}  {clean(one.sentence)}", "" if one.is_ok else "bold red")
            if one.what_next:
                say(out, f"     {clean(one.what_next)}")
    if not all(one.is_ok for one in found):
        raise typer.Exit(1)
