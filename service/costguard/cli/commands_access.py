"""`costguard sign-in` and `costguard token`: who may come in."""

from __future__ import annotations

import os
import secrets
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from costguard.cli import profile, tokens_table
from costguard.cli.client import THIS_MACHINE, Server
from costguard.cli.format import clean_lines, when
from costguard.cli.options import DEFAULT_URL, AsJson, Limit, Url, print_json
from costguard.cli.tables import console
from costguard.model.access import Permission, Role

if TYPE_CHECKING:
    from costguard.main.on_server import TokensHere
    from costguard.settings import Settings

token = typer.Typer(no_args_is_help=True, help="Tokens, which programs and this command ask with.")

_SIGN_IN = """Examples:

  costguard sign-in                                          as an admin

  costguard sign-in --as vic@example.com --role viewer       to be sent to somebody
"""
_CREATE = """Examples:

  costguard token create laptop --save                       for this command, here

  costguard token create nightly --permission jobs --permission read --days 30

  TOKEN=$(costguard token create grafana --permission metrics)
"""
Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Work on this settings file's database, and ask no server."),
]


def register(app: typer.Typer) -> None:
    app.command("sign-in", epilog=_SIGN_IN)(sign_in)
    app.add_typer(token, name="token")


def sign_in(
    address: Annotated[str, typer.Option("--as", metavar="ADDRESS", help="Whom; else who answers for budgets.")] = "",
    role: Annotated[Role, typer.Option("--role", help="What they may do until they sign out.")] = Role.ADMIN,
    url: Annotated[str, typer.Option("--url", help="Where the server is reached; else sign_in.url.")] = "",
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Default: $COSTGUARD_CONFIG, else ./costguard.toml.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print a link that signs somebody in, once and within ten minutes. Run it where the server runs."""
    from costguard.main.on_server import new_link  # only here: other commands start sooner

    link = new_link(_settings(config), address, role, url)
    if as_json:
        told = {"url": link.url, "address": link.address, "role": link.role.value}
        print_json({**told, "expires_at": link.expires_at.isoformat().replace("+00:00", "Z")})
    else:
        print(link.url)
        _aside(f"It signs in {link.address} as {link.role.value}, once, within ten minutes.")


@token.command("create", epilog=_CREATE)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="After what will use it.")],
    permission: Annotated[
        list[Permission] | None, typer.Option("--permission", help="Only this; repeatable. Else all that you have.")
    ] = None,
    days: Annotated[int, typer.Option("--days", min=0, max=3650, help="How long it lasts; 0: without an end.")] = 90,
    owner: Annotated[str, typer.Option("--owner", metavar="ADDRESS", help="Whom it speaks for; else you.")] = "",
    role: Annotated[Role | None, typer.Option("--role", help="The most that it may be used for.")] = None,
    save: Annotated[bool, typer.Option("--save", help="Keep it in the profile, for this command to use.")] = False,
    config: Config = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it, this once. Only a digest of it is kept.

    Where the server runs this works on its database; elsewhere it asks the server, with the token you have.
    """
    here = _here(config, url)
    if here is None:
        server = Server(url)
        body: dict[str, Any] = {"name": name, "days": days or None}
        body |= {"permissions": [each.value for each in permission]} if permission else {}
        body |= {"owner": owner} if owner else {}
        body |= {"role": role.value} if role is not None else {}
        answer, where = server.post("tokens", body=body, key=secrets.token_hex(16)), server.url
    else:
        from costguard.access.tokens import NewToken  # only here, as above

        lasts = timedelta(days=days) if days else None
        wanted = NewToken(name, frozenset(permission) if permission else None, lasts, owner, role)
        answer, where = here.make(wanted), here.url or THIS_MACHINE
    saved = profile.save(profile.Profile(where, answer["secret"]), os.environ) if save else None
    if as_json:
        print_json(answer)
    else:
        _tell(answer, saved)


def _tell(answer: dict[str, Any], saved: Path | None) -> None:
    made = answer["token"]
    until = f"until {when(made['expires_at'])}" if made["expires_at"] else "without an end"
    may = ", ".join(made["permissions"])
    told = f"Made the token {made['name']} ({made['id']}) for {made['owner']}, {until}. It may: {may}."
    if saved is None:
        print(answer["secret"])
        _aside(f"{told}\nIt is not shown again.")
    else:
        print(clean_lines(f"{told}\nCommands here use it from now on; it is in {saved}."))


@token.command("list", epilog="Example:  costguard token list --json")
def listing(
    limit: Limit = 100,
    config: Config = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Your tokens, the newest first; for an admin everybody's. None is shown itself."""
    here = _here(config, url)
    answer = Server(url).pages("tokens", "tokens", limit) if here is None else here.listing(limit)
    print_json(answer) if as_json else tokens_table.show_tokens(console(), answer)


@token.command("revoke", epilog="Example:  costguard token revoke 4f0e19a2c7")
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As `costguard token list` shows it.")],
    config: Config = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """End a token: from now on it opens nothing."""
    here = _here(config, url)
    answer = Server(url).delete("tokens", token_id) if here is None else here.revoke(token_id)
    if as_json:
        print_json(answer)
    else:
        ended = answer["token"]
        print(clean_lines(f"The token {ended['name']} ({ended['id']}) of {ended['owner']} opens nothing any more."))


@token.command("confirm", epilog="Example:  costguard token confirm 4f0e19a2c7")
def confirm(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As `costguard token list` shows it.")],
    config: Config = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Let a token outlive the one-time link's session that it was made in. For admins, or where the server runs."""
    here = _here(config, url)
    if here is None:
        answer = Server(url).post(f"tokens/{quote(token_id, safe='')}/confirm", body={})
    else:
        answer = here.confirm(token_id)
    if as_json:
        print_json(answer)
    else:
        made = answer["token"]
        until = f"until {when(made['expires_at'])}" if made["expires_at"] else "without an end"
        print(clean_lines(f"The token {made['name']} ({made['id']}) of {made['owner']} is good {until}."))


def _here(config: Path | None, url: str) -> TokensHere | None:
    """None: a server is to be asked. It is where one was named, and where there is no settings file."""
    is_local = Path("costguard.toml").exists() or "COSTGUARD_CONFIG" in os.environ
    if config is None and (url or not is_local):
        return None
    from costguard.main.on_server import TokensHere  # only here, as above

    return TokensHere(_settings(config))


def _settings(config: Path | None) -> Settings:
    from costguard.settings import load

    return load(config, os.environ)


def _aside(text: str) -> None:
    """Not to the output, which scripts keep."""
    print(clean_lines(text), file=sys.stderr)
