"""Where commands find their server and its token, where no option or variable says so. Standard library only."""

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
_MEND = "Mend or delete it; `costguard token create NAME --save` writes a new one."


@dataclass(frozen=True, slots=True)
class Profile:
    """The token is this server's, and is sent to no other."""

    url: str
    token: str


def path(environ: Mapping[str, str]) -> Path | None:
    """XDG's folder of settings, else APPDATA on Windows, else ~/.config. None: this user has none of them."""
    home = environ.get("HOME")
    folder = environ.get("XDG_CONFIG_HOME") or environ.get("APPDATA") or (home and str(Path(home) / ".config"))
    return Path(folder) / "costguard" / "profile.toml" if folder else None


def read(environ: Mapping[str, str]) -> Profile | None:
    """None: there is none. Raises CostguardError: it cannot be read, or others could."""
    where = path(environ)
    try:
        if where is None or not (mode := where.stat().st_mode):
            return None
        text = where.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CostguardError(f"The profile {where} cannot be read: {error}.", _MEND) from None
    # Windows has no such bits, and %APPDATA% is its user's alone.
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CostguardError(f"Others can read the token in {where}.", f"Run `chmod 600 {where}`.")
    import tomllib  # only here: commands without a profile start sooner

    try:
        told = tomllib.loads(text)
        url, token = told["url"], told["token"]
    except (ValueError, KeyError):
        url = token = None
    if not isinstance(url, str) or not isinstance(token, str):
        raise CostguardError(f"The profile {where} does not hold url = and token =, each as text.", _MEND)
    return Profile(url, token)


def save(profile: Profile, environ: Mapping[str, str]) -> Path:
    """In place of the one before; only this user can read it. Raises CostguardError."""
    where = path(environ)
    if where is None:
        raise CostguardError(
            "It is not known where to save it: neither HOME nor APPDATA is set.",
            "Set one of them, or leave out --save.",
        )
    made = where.with_name(f".{where.name}.{secrets.token_hex(4)}")
    try:
        where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            # JSON's texts are TOML's as well.
            file.write(f"url = {json.dumps(profile.url)}\ntoken = {json.dumps(profile.token)}\n")
        made.replace(where)
    except OSError as error:
        raise CostguardError(f"{where} cannot be written: {error.strerror}.", "Let this user write there.") from None
    return where


def found(url: str, environ: Mapping[str, str], otherwise: str) -> tuple[str, str]:
    """The address of the server and its token ("" without one), by what was given first, then the profile.

    The profile is read only where something is missing: else a broken one is in nobody's way. Raises CostguardError.
    """
    token = _token_in(environ)
    own = None if url and token else read(environ)
    address = (url or (own.url if own is not None else otherwise)).rstrip("/")
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
            raise CostguardError(f"{_TOKEN_FILE} names {file}, which cannot be read: {error}.", "Mend it.") from None
        if not given:
            raise CostguardError(f"{_TOKEN_FILE} names {file}, which is empty.", "Put the token alone into it.")
    return given
