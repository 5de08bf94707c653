"""The saved server and token of a user, for where no option or variable names one. Standard library only."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from costguard.errors import CostguardError

TOKEN = "COSTGUARD_TOKEN"  # noqa: S105 -- the variable's name
_TOKEN_FILE = "COSTGUARD_TOKEN_FILE"  # noqa: S105
_REPAIR = "Correct or delete it; `costguard token create NAME --save` writes a new one."


@dataclass(frozen=True, slots=True)
class Profile:
    """A server and its token, which is sent to no other server."""

    url: str
    token: str


def path(environ: Mapping[str, str]) -> Path | None:
    """Returns the profile's path: in XDG_CONFIG_HOME, else APPDATA on Windows, else ~/.config; None where none of them
    is set.
    """
    home = environ.get("HOME")
    folder = environ.get("XDG_CONFIG_HOME") or environ.get("APPDATA") or (home and str(Path(home) / ".config"))
    return Path(folder) / "costguard" / "profile.toml" if folder else None


def read(environ: Mapping[str, str]) -> Profile | None:
    """Reads the profile; None where there is none.

    Raises CostguardError where it cannot be read, or others can read it.
    """
    where = path(environ)
    try:
        if where is None or not (mode := where.stat().st_mode):
            return None
        text = where.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CostguardError(f"The profile {where} cannot be read: {error}.", _REPAIR) from None
    # Windows has no such bits, and %APPDATA% is its user's alone.
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CostguardError(f"Others can read the token in {where}.", f"Run `chmod 600 {where}`.")
    import tomllib  # only here: commands without a profile start sooner

    try:
        values = tomllib.loads(text)
        url, token = values["url"], values["token"]
    except (ValueError, KeyError):
        url = token = None
    if not isinstance(url, str) or not isinstance(token, str):
        raise CostguardError(f"The profile {where} does not hold url = and token =, each as text.", _REPAIR)
    return Profile(url, token)


def save(profile: Profile, environ: Mapping[str, str]) -> Path:
    """Replaces the previous profile; only this user can read the file. Raises CostguardError."""
    where = path(environ)
    if where is None:
        raise CostguardError(
            "There is no folder to save it in: neither HOME nor APPDATA is set.",
            "Set one of them, or leave out --save.",
        )
    made = where.with_name(f".{where.name}.{secrets.token_hex(4)}")
    try:
        where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            # A JSON string is a TOML string as well.
            file.write(f"url = {json.dumps(profile.url)}\ntoken = {json.dumps(profile.token)}\n")
        made.replace(where)
    except OSError as error:
        raise CostguardError(f"{where} cannot be written: {error.strerror}.", "Let this user write there.") from None
    return where


def address_and_token(url: str, environ: Mapping[str, str], default: str) -> tuple[str, str]:
    """The server's address and its token ("" without one): as given, else as in the profile.

    The profile is read only where one is missing, so that a broken one does no further harm. Raises CostguardError.
    """
    token = _token_in(environ)
    own = None if url and token else read(environ)
    address = (url or (own.url if own is not None else default)).rstrip("/")
    if not token and own is not None and own.url.rstrip("/") == address:
        token = own.token
    return address, token


def _token_in(environ: Mapping[str, str]) -> str:
    given, file = environ.get(TOKEN, "").strip(), environ.get(_TOKEN_FILE, "")
    if given and file:
        raise CostguardError(f"{TOKEN} and {_TOKEN_FILE} are both set.", "Unset one of the two.")
    if file:
        try:
            given = Path(file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CostguardError(f"{_TOKEN_FILE} names {file}, which cannot be read: {error}.", "Correct it.") from None
        if not given:
            raise CostguardError(f"{_TOKEN_FILE} names {file}, which is empty.", "Put the token alone into it.")
    return given
