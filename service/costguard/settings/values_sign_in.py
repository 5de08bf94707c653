"""How the values of [sign_in] are written. Each function raises ValueError with what was expected."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from costguard.settings import values

_AUDIENCE = re.compile(r"/projects/[0-9]{1,20}/[A-Za-z0-9_./:-]{3,200}")
_CLIENT = re.compile(r"[!-~]{1,300}")


def origin(value: str) -> str:
    """Where people reach the server, without the slash at its end."""
    expected = "the server's address as people reach it, such as https://costguard.example.com, with nothing behind it"
    try:
        parts = urlsplit(values.endpoint(value))
    except ValueError:
        raise ValueError(expected) from None
    if parts.path:
        raise ValueError(expected)
    return f"{parts.scheme}://{parts.netloc.lower()}"


def issuer(value: str) -> str:
    """Kept as it is: providers differ in whether theirs ends in a slash, and it must be the same in each token."""
    try:
        parts = urlsplit(value)
        host = parts.hostname or ""
        usable = parts.scheme == "https" or (parts.scheme == "http" and _is_here(host))
    except ValueError:
        usable, host = False, ""
    if not usable or not host or re.search(r"[\s?#@]", value):
        raise ValueError("the provider's issuer as it writes it itself, such as https://accounts.google.com")
    if value.endswith("/.well-known/openid-configuration"):
        meant = value.removesuffix("/.well-known/openid-configuration")
        raise ValueError(f"the issuer, not its description's address (did you mean {meant}?)")
    return value


def client_id(value: str) -> str:
    if not _CLIENT.fullmatch(value):
        raise ValueError("the id that the provider gave to this server, without spaces")
    return value


def iap_audience(value: str) -> str:
    if not _AUDIENCE.fullmatch(value):
        raise ValueError(
            "the audience as Identity-Aware Proxy's page shows it (Signed Header JWT Audience), such as "
            "/projects/123456789/global/backendServices/987654321"
        )
    return value


def _is_here(host: str) -> bool:
    try:
        return values.is_loopback(host)
    except ValueError:  # a name of another machine
        return False
