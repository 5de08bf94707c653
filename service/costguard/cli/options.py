"""The options that commands share."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from costguard.cli.client import DEFAULT_URL

Url = Annotated[
    str, typer.Option("--url", envvar="COSTGUARD_URL", help="Address of the server. COSTGUARD_TOKEN holds its token.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the server's answer as JSON.")]
Project = Annotated[list[str] | None, typer.Option("--project", "-p", help="Only this project; repeatable.")]
Preset = Annotated[list[str] | None, typer.Option("--preset", help="Only this preset; repeatable.")]
Owner = Annotated[list[str] | None, typer.Option("--owner", help='Only this owner; repeatable; "" for the unclaimed.')]
Limit = Annotated[int, typer.Option("--limit", "-n", min=0, help="Show at most so many; 0 shows all.")]
__all__ = ["DEFAULT_URL", "AsJson", "Limit", "Owner", "Preset", "Project", "Url", "listening_address", "print_json"]


def print_json(answer: dict[str, Any]) -> None:
    """Controls in names are escaped by JSON itself."""
    print(json.dumps(answer, indent=2))


def listening_address(text: str) -> str:
    """Where to listen, as the settings write it; `:9000` is this machine's port 9000."""
    from costguard.settings import values  # only here: other commands need no settings, and start sooner

    address = f"127.0.0.1{text}" if text.startswith(":") else text
    try:
        return values.listen(address)
    except ValueError as expected:
        raise typer.BadParameter(f"{text!r} is not {expected}.", param_hint="--listen") from None
