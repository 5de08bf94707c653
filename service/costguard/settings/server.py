"""[server], [database] and [log]."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from costguard.settings.environment import TOKEN
from costguard.settings.problems import Raw, SettingProblem, table
from costguard.settings.values import Listed, Section, is_loopback

_SHORTEST_TOKEN = 16
_MAKE_TOKEN = "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"  # noqa: S105 -- how to make one


def listen(value: str) -> str:
    host, _, port = value.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_address = bare == "localhost" or _is_ip(bare)
    if not is_address or (":" in bare) != host.startswith("[") or not port.isdecimal() or int(port) > 65535:
        raise ValueError("an IP address and a port, such as 127.0.0.1:8765, [::1]:8765 or 0.0.0.0:8765")
    return value


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def network(value: str) -> str:
    """The addresses of proxies. A range of all addresses cannot be trusted."""
    expected = "an address, or a range of them such as 10.0.0.0/8"
    try:
        addresses = ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise ValueError(expected) from None
    if addresses.prefixlen == 0:
        raise ValueError(f"{expected}; anyone could be behind {value}, so name the proxies")
    if "/" in value and str(addresses) != value and addresses.num_addresses > 1:
        raise ValueError(f"{expected} (did you mean {addresses}?)")
    return str(addresses)


def database_url(value: str) -> str:
    """SQLite in a file, or PostgreSQL through psycopg, whichever scheme was written."""
    if value.startswith("sqlite:///") and value.removeprefix("sqlite:///") not in {"", ":memory:"}:
        _, _, query = value.partition("?")
        if "widest_mode" in query and not re.fullmatch(r"widest_mode=0?[0-7]{3}", query):
            raise ValueError("after the file at most ?widest_mode=0660, the mode that the volume sets")
        return value
    scheme, separator, rest = value.partition("://")
    if separator and rest and scheme in {"postgres", "postgresql", "postgresql+psycopg"}:
        return f"postgresql+psycopg://{rest}"
    raise ValueError("sqlite:///FILE (four slashes for a path from the root) or postgresql://USER@HOST/DATABASE")


def _secret_url(value: object) -> object:
    return SecretStr(database_url(value)) if isinstance(value, str) else value


ListenAddress = Annotated[str, AfterValidator(listen)]


class ServerSection(Section):
    listen: ListenAddress = "127.0.0.1:8765"
    workers: Annotated[int, Field(ge=1, le=32)] = 1  # that serve pages and the API; another one takes agents' reports
    requests_per_minute: Annotated[int, Field(ge=12, le=1_000_000)] = 600  # of one token or session
    trusted_proxies: Annotated[tuple[Annotated[str, AfterValidator(network)], ...], Listed] = ()

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """0 lets the system choose a free one."""
        return int(self.listen.rpartition(":")[2])

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def local_url(self) -> str:
        """Returns the address for a browser on this computer; "" where the system chooses the port."""
        if not self.port:
            return ""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


class DatabaseSection(Section):
    backups: str | None = None  # the folder of backups, whose age `costguard doctor` looks at
    url: Annotated[SecretStr, BeforeValidator(_secret_url)] = SecretStr("sqlite:///costguard.db")


class LogSection(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


def check(raw: Raw, secrets: Mapping[str, str]) -> Iterator[SettingProblem]:
    """A server that others can reach needs a token or sign-in; passwords belong in the environment."""
    token = secrets.get(TOKEN, "")
    if "token" in raw:
        yield SettingProblem(("token",), "no such key; the token comes from the environment: COSTGUARD_TOKEN")
    if token and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        text = (
            f"COSTGUARD_TOKEN: expected at least {_SHORTEST_TOKEN} letters, digits and signs, no spaces; {_MAKE_TOKEN}"
        )
        yield SettingProblem(("token",), text)
    address = table(raw, "server").get("listen")
    sign_in = table(raw, "sign_in")
    is_guarded = token or "iap_audience" in sign_in or "oidc_issuer" in sign_in
    if not is_guarded and isinstance(address, str) and _reaches_out(address):
        text = (
            f"others could reach {address}; expected a token in COSTGUARD_TOKEN, or [sign_in] with iap_audience or "
            f"oidc_issuer, or 127.0.0.1. Make a token: {_MAKE_TOKEN}"
        )
        yield SettingProblem(("server", "listen"), text)
    url = table(raw, "database").get("url")
    if isinstance(url, str) and has_password(url):
        text = "holds a password; expected the whole address in the environment: COSTGUARD_DATABASE_URL"
        yield SettingProblem(("database", "url"), text)


def _reaches_out(address: str) -> bool:
    try:
        return not is_loopback(listen(address).rpartition(":")[0].strip("[]"))
    except ValueError:
        return False


def has_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None or "password=" in urlsplit(url).query
    except ValueError:
        return "@" in url
