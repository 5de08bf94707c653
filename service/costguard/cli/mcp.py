"""`costguard mcp`: the server for agents, on standard input and output."""

from __future__ import annotations

import typer

from costguard.cli.options import DEFAULT_URL, Url
from costguard.errors import CostguardError
from costguard_client import Client


def register(app: typer.Typer) -> None:
    app.command("mcp", epilog="Example:  costguard mcp --url https://costguard.lab.example")(mcp)


def mcp(url: Url = DEFAULT_URL) -> None:
    """Let an agent read, explain and quote by the Model Context Protocol, and ask to keep or stop VMs."""
    try:
        from costguard_client.mcp.offer import run
    except ModuleNotFoundError as error:
        if (error.name or "costguard").partition(".")[0] == "costguard":
            raise
        raise CostguardError(
            "The library for the Model Context Protocol is not installed.", "Run `pip install 'costguard[mcp]'`."
        ) from None
    run(Client(url, program="mcp"))
