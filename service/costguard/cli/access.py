"""`costguard sign-in`, `costguard token` and `costguard session`: who has access; and `costguard mcp`, for agents."""

from __future__ import annotations

import os
import secrets
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console

from costguard.cli.command_line import CommandLine
from costguard.cli.options import DEFAULT_URL, AsJson, Config, Limit, Url, access_settings_of, print_json
from costguard.cli.server import THIS_COMPUTER, ServerClient, WrongUsage
from costguard.cli.tables import Answer, Column, cell, clean_lines, render, say, show_table, when
from costguard.errors import CostguardError
from costguard.model.access import Permission, Role
from costguard.model.moments import z_text
from costguard_client import Client, profile

if TYPE_CHECKING:
    from costguard.access.server_tokens import ServerTokens

token = CommandLine(no_args_is_help=True, help="Tokens for programs and for this command.")
session = CommandLine(no_args_is_help=True, help="Sessions of signed-in browsers.")

_SIGN_IN = """Examples:

  costguard sign-in                                          as an admin

  costguard sign-in --as vic@example.com --role viewer       a link to send to someone else
"""
_CREATE = """Examples:

  costguard token create laptop --save                       for this command, on this computer

  costguard token create nightly --permission jobs --permission read --days 30

  TOKEN=$(costguard token create grafana --permission metrics)
"""
_END = """Examples:

  costguard session end 8c1f0a9b2d3e4f50

  costguard session end --all                            you, everywhere

  costguard session end --all --address vic@example.com  someone who leaves; also revoke their tokens
"""
_Local = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="Work directly on this settings file's database, without a server."
    ),
]
_TokenId = Annotated[str, typer.Argument(metavar="ID", help="The token's id, as `costguard token list` shows it.")]


def register(app: typer.Typer) -> None:
    app.command("sign-in", epilog=_SIGN_IN)(sign_in)
    app.add_typer(token, name="token")
    app.add_typer(session, name="session")
    app.command("mcp", epilog="Example:  costguard mcp --url https://costguard.lab.example")(mcp)


def sign_in(
    address: Annotated[
        str,
        typer.Option(
            "--as", metavar="ADDRESS", help="The address of the person who signs in. Default: reminders.contact."
        ),
    ] = "",
    role: Annotated[Role, typer.Option("--role", metavar="ROLE", help="Their role until they sign out.")] = Role.ADMIN,
    url: Annotated[str, typer.Option("--url", metavar="URL", help="The server's address. Default: sign_in.url.")] = "",
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Print a link that signs someone in, once and within ten minutes. Run it where the server runs."""
    from costguard.main.local_access import new_link  # only here: other commands start sooner

    link = new_link(access_settings_of(config), address, role, url)
    if as_json:
        shown = {"url": link.url, "address": link.address, "role": link.role.value}
        print_json({**shown, "expires_at": z_text(link.expires_at)})
    else:
        print(link.url)
        _aside(f"It signs in {link.address} as {link.role.value}, once, within ten minutes.")


@token.command("create", epilog=_CREATE)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name after the program that will use it.")],
    permission: Annotated[
        list[Permission] | None,
        typer.Option(
            "--permission",
            metavar="read|jobs|instances|tokens|metrics|admin",
            help="A permission of the token; repeatable. Default: all of your own.",
        ),
    ] = None,
    days: Annotated[
        int,
        typer.Option(
            "--days", metavar="DAYS", min=0, max=3650, help="The number of days that it lasts; 0: it never expires."
        ),
    ] = 90,
    owner: Annotated[str, typer.Option("--owner", metavar="ADDRESS", help="The person it acts as. Default: you.")] = "",
    role: Annotated[
        Role | None,
        typer.Option("--role", metavar="ROLE", help="The token's role, where it is lower than its owner's."),
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Save it in the profile, for this command to use.")] = False,
    config: _Local = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Create a token and print it, this once. Only a digest of it is stored.

    Where the server runs this works on its database; elsewhere it asks the server, with your token.
    """
    local = _local(config, url)
    if local is None:
        server = ServerClient(url)
        body: dict[str, Any] = {"name": name, "days": days or None}
        body |= {"permissions": [chosen.value for chosen in permission]} if permission else {}
        body |= {"owner": owner} if owner else {}
        body |= {"role": role.value} if role is not None else {}
        answer, where = server.post("tokens", body=body, key=secrets.token_hex(16)), server.url
    else:
        from costguard.access.tokens import NewToken  # only here, as above

        lasts = timedelta(days=days) if days else None
        wanted = NewToken(name, frozenset(permission) if permission else None, lasts, owner, role)
        answer, where = local.make(wanted), local.url or THIS_COMPUTER
    saved = profile.save(profile.Profile(where, answer["secret"]), os.environ) if save else None
    if as_json:
        print_json(answer)
    else:
        _print_secret(answer, saved)


def _print_secret(answer: Answer, saved: Path | None) -> None:
    made = answer["token"]
    may = ", ".join(made["permissions"])
    text = f"Created the token {made['name']} ({made['id']}) for {made['owner']}, {_valid(made)}. It may: {may}."
    if saved is None:
        print(answer["secret"])
        _aside(f"{text}\nIt is not shown again.")
    else:
        print(clean_lines(f"{text}\nCommands on this computer use it from now on; it is in {saved}."))


@token.command("list", epilog="Example:  costguard token list --json")
def list_tokens(limit: Limit = 100, config: _Local = None, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """List your tokens, the newest first; for an admin everyone's. Their secrets are not shown."""
    local = _local(config, url)
    answer = ServerClient(url).pages("tokens", "tokens", limit) if local is None else local.listing(limit)
    render(answer, as_json, _show_tokens)


@token.command("revoke", epilog="Example:  costguard token revoke 4f0e19a2c7")
def revoke(token_id: _TokenId, config: _Local = None, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Revoke a token: it stops working at once."""
    local = _local(config, url)
    answer = ServerClient(url).delete("tokens", token_id) if local is None else local.revoke(token_id)
    if as_json:
        print_json(answer)
    else:
        ended = answer["token"]
        print(clean_lines(f"Revoked the token {ended['name']} ({ended['id']}) of {ended['owner']}."))


@token.command("confirm", epilog="Example:  costguard token confirm 4f0e19a2c7")
def confirm(token_id: _TokenId, config: _Local = None, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Let a token outlive the sign-in link's session that created it. For admins, or where the server runs."""
    local = _local(config, url)
    if local is None:
        answer = ServerClient(url).post(f"tokens/{quote(token_id, safe='')}/confirm", body={})
    else:
        answer = local.confirm(token_id)
    if as_json:
        print_json(answer)
    else:
        made = answer["token"]
        print(clean_lines(f"The token {made['name']} ({made['id']}) of {made['owner']} is valid {_valid(made)}."))


@session.command("list", epilog="Example:  costguard session list --json")
def list_sessions(limit: Limit = 100, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """List your sessions, the newest first; for an admin everyone's."""
    render(ServerClient(url).pages("sessions", "sessions", limit), as_json, _show_sessions)


@session.command("end", epilog=_END)
def end(
    session_id: Annotated[
        str, typer.Argument(metavar="[ID]", help="The session's id, as `costguard session list` shows it.")
    ] = "",
    everywhere: Annotated[bool, typer.Option("--all", help="End all of your sessions, or all of --address's.")] = False,
    address: Annotated[
        str,
        typer.Option(
            "--address", metavar="ADDRESS", help="The person whose sessions end, with --all; only admins name another."
        ),
    ] = "",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """End a session: its browser has to sign in again."""
    if bool(session_id) == everywhere or (address and not everywhere):
        raise WrongUsage("Name one session by its id, or all of one person with --all.", "Add --help to see how.")
    server = ServerClient(url)
    answer = server.delete("sessions", address=address or None) if everywhere else server.delete("sessions", session_id)
    if as_json:
        print_json(answer)
        return
    ended: list[Answer] = answer["sessions"] if everywhere else [answer["session"]]
    for row in ended:
        print(clean_lines(f"Ended the session {row['id']} of {row['address']}, begun {when(row['began_at'])}."))
    if not ended:
        print("There was none.")


def _local(config: Path | None, url: str) -> ServerTokens | None:
    """The database here; None where a server was named, or where there is no settings file."""
    has_settings = Path("costguard.toml").exists() or "COSTGUARD_CONFIG" in os.environ
    if config is None and (url or not has_settings):
        return None
    from costguard.main.local_access import server_tokens  # only here, as above

    return server_tokens(access_settings_of(config))


def _aside(text: str) -> None:
    """Prints to standard error: scripts keep standard output."""
    print(clean_lines(text), file=sys.stderr)


def _valid(made: Answer) -> str:
    return f"until {when(made['expires_at'])}" if made["expires_at"] else "for good"


def _until(made: Answer) -> str:
    if made["revoked_at"]:
        return f"revoked {when(made['revoked_at'])} by {made['revoked_by']}"
    if not made["expires_at"]:
        return "never expires"
    if made["is_usable"] and made["is_provisional"]:
        return f"{when(made['expires_at'])}, unless confirmed"
    return when(made["expires_at"]) if made["is_usable"] else f"expired {when(made['expires_at'])}"


_TOKENS = (
    Column("Id", "id"),
    Column("Name", "name"),
    Column("Speaks for", "owner", spare=3),
    Column("May", lambda made: ", ".join(made["permissions"]), prose=True, spare=2),
    Column("Created", lambda made: when(made["made_at"]), spare=1),
    Column("Used", lambda made: when(made["last_used_at"]) or "never"),
    Column("Until", lambda made: cell(_until(made), "" if made["is_usable"] else "dim")),
)
_PROVIDERS = {"link": "a link", "oidc": "the provider"}
_SESSIONS = (
    Column("Id", "id"),
    Column("Who", lambda row: f"{row['address']}{' (this one)' if row['is_this'] else ''}"),
    Column("Role", "role", spare=1),
    Column("By", lambda row: _PROVIDERS.get(row["via"], row["via"]), spare=2),
    Column("From", lambda row: row["client"] or "-"),
    Column("Began", lambda row: when(row["began_at"]), spare=3),
    Column("Used", lambda row: when(row["last_used_at"]) or "not yet"),
    Column("Until", lambda row: when(row["expires_at"])),
)


def _show_tokens(console: Console, answer: Answer) -> None:
    if answer["tokens"]:
        show_table(console, _TOKENS, answer["tokens"])
    else:
        say(console, "There is no token yet: `costguard token create NAME` creates one.")


def _show_sessions(console: Console, answer: Answer) -> None:
    if answer["sessions"]:
        show_table(console, _SESSIONS, answer["sessions"])
    else:
        say(console, "Nobody is signed in: `costguard sign-in` prints a link.")


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
