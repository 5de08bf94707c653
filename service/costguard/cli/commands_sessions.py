"""`costguard session`: who is signed in, and how that is ended."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from costguard.cli import tokens_table
from costguard.cli.client import Server, WrongUsage
from costguard.cli.format import clean_lines, when
from costguard.cli.options import DEFAULT_URL, AsJson, Limit, Url, print_json
from costguard.cli.tables import console

session = typer.Typer(no_args_is_help=True, help="Sessions of people who are signed in, in their browsers.")

_END = """Examples:

  costguard session end 8c1f0a9b2d3e4f50

  costguard session end --all                            you, everywhere

  costguard session end --all --address vic@example.com  somebody who leaves; revoke their tokens, too
"""


def register(app: typer.Typer) -> None:
    app.add_typer(session, name="session")


@session.command("list", epilog="Example:  costguard session list --json")
def listing(limit: Limit = 100, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Where you are signed in, the newest first; for an admin everybody."""
    answer = Server(url).pages("sessions", "sessions", limit)
    print_json(answer) if as_json else tokens_table.show_sessions(console(), answer)


@session.command("end", epilog=_END)
def end(
    session_id: Annotated[str, typer.Argument(metavar="[ID]", help="As `costguard session list` shows it.")] = "",
    everywhere: Annotated[bool, typer.Option("--all", help="All sessions of one person; you, or --address.")] = False,
    address: Annotated[
        str, typer.Option("--address", metavar="ADDRESS", help="Whose, with --all; only admins name another.")
    ] = "",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Sign somebody out: from now on that browser has to sign in again."""
    if bool(session_id) == everywhere or (address and not everywhere):
        raise WrongUsage("Name one session by its id, or all of one person with --all.", "Add --help to see how.")
    server = Server(url)
    answer = server.delete("sessions", address=address or None) if everywhere else server.delete("sessions", session_id)
    if as_json:
        print_json(answer)
        return
    ended: list[dict[str, Any]] = answer["sessions"] if everywhere else [answer["session"]]
    for each in ended:
        print(clean_lines(f"The session {each['id']} of {each['address']}, begun {when(each['began_at'])}, is over."))
    if not ended:
        print("There was none.")
