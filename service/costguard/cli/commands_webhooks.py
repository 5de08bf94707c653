"""`costguard webhooks test`: whether a receiver of facts takes what it is sent, without a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from costguard.cli.format import clean
from costguard.cli.options import print_json
from costguard.cli.tables import console, say

webhooks = typer.Typer(no_args_is_help=True, help="The receivers of facts.")

_EPILOG = """Examples:

  costguard webhooks test pager           post a test to webhooks.pager, and say what it answered

  costguard webhooks test pager --json    the same for a script
"""


def register(app: typer.Typer) -> None:
    app.add_typer(webhooks, name="webhooks")


@webhooks.command("test", epilog=_EPILOG)
def try_out(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As in webhooks.NAME of the settings.")],
    path: Annotated[
        Path | None, typer.Option("--config", "-c", help="Default: $COSTGUARD_CONFIG, else ./costguard.toml.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Post a message of the kind WebhookTest, signed like all others, and say what the receiver answered.

    Exits 1 when it does not accept it.
    """
    from costguard.clock import SystemClock  # only here: other commands need none of this, and start sooner
    from costguard.main.webhooks import try_out as posted
    from costguard.settings import load
    from costguard.webhooks.signature import refusal

    answer = posted(load(path, os.environ), SystemClock(), name)
    if as_json:
        print_json({"accepted": answer.is_accepted, "status": answer.status, "answer": answer.words})
    elif answer.is_accepted:
        say(console(), f"ok   {clean(name)} took the test: it answered {answer.status}.")
    else:
        say(console(), f"NOT  {clean(refusal(answer))}", "bold red")
    if not answer.is_accepted:
        raise typer.Exit(1)
