"""The origin of a request behind proxies: only those that the settings name are trusted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal

from starlette.types import ASGIApp, Receive, Scope, Send

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Header = Literal["x-forwarded", "forwarded"]

_SAID = frozenset(
    {b"forwarded", b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-port", b"x-real-ip"}
)
_SCHEMES = frozenset({"http", "https"})
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")
# RFC 7239, 4: name=token or name="quoted", with semicolons between the pairs of one hop and commas between hops.
_PAIR = re.compile(r'\s*([A-Za-z]+)=("(?:[^"\\]|\\.)*"|[^;,"\s]*)\s*([;,]|$)')


@dataclass(frozen=True, slots=True)
class Hop:
    """The sender that one proxy names; None for what it left out, or what is no address."""

    client: Address | None
    scheme: str | None = None
    host: str | None = None


class TrustedProxies:
    """Replaces the proxy's address, scheme and host by the client's, and removes the forwarding headers.

    `header` is the one that the proxies write: the other could come from any client, through them.
    """

    def __init__(self, app: ASGIApp, networks: Iterable[str] = (), header: Header = "x-forwarded") -> None:
        self._app, self._header = app, header
        self._networks = tuple(ip_network(network) for network in networks)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = self._seen(scope)
        await self._app(scope, receive, send)

    def is_proxy(self, address: str) -> bool:
        """Says whether this is a trusted proxy's address."""
        parsed = _address(address)
        return parsed is not None and self._is_trusted(parsed)

    def _seen(self, scope: Scope) -> Scope:
        headers = [(name, value) for name, value in scope["headers"] if name not in _SAID]
        if len(headers) == len(scope["headers"]):
            return scope
        seen = {**scope, "headers": headers}
        peer = _address(scope["client"][0]) if scope.get("client") else None
        if peer is None or not self._is_trusted(peer):
            return seen
        hops = of_forwarded(_values(scope, b"forwarded")) if self._header == "forwarded" else _of_x_forwarded(scope)
        origin = self._origin(hops)
        if origin is None:
            return seen
        if origin.client is not None:
            seen["client"] = (str(origin.client), 0)
        if origin.scheme in _SCHEMES:
            seen["scheme"] = origin.scheme
        if origin.host is not None and _HOST.fullmatch(origin.host):
            seen["headers"] = [(name, value) for name, value in headers if name != b"host"]
            seen["headers"].append((b"host", origin.host.encode("ascii")))
        return seen

    def _origin(self, hops: Sequence[Hop]) -> Hop | None:
        """The right-most hop that no trusted proxy was: what is to its left comes from strangers."""
        nearest: Hop | None = None
        for hop in reversed(hops):
            if hop.client is None:
                return nearest or Hop(None, hop.scheme, hop.host)
            nearest = hop
            if not self._is_trusted(hop.client):
                return hop
        return nearest

    def _is_trusted(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def of_forwarded(values: Sequence[str]) -> list[Hop]:
    """RFC 7239, the first hop first. A hop that cannot be read is one of which nothing is known."""
    hops: list[Hop] = []
    text, at = ",".join(values), 0
    pairs: dict[str, str] = {}
    while at < len(text):
        match = _PAIR.match(text, at)
        if match is None:
            following = text.find(",", at)
            pairs, at = {}, len(text) if following < 0 else following + 1
            hops.append(Hop(None))
            continue
        value = match[2]
        quoted = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        pairs[match[1].lower()] = quoted
        at = match.end()
        if match[3] != ";":
            hops.append(Hop(_address(pairs.get("for", "")), pairs.get("proto", "").lower() or None, pairs.get("host")))
            pairs = {}
    return hops


def _of_x_forwarded(scope: Scope) -> list[Hop]:
    """Schemes and hosts belong to the hops where there is one for each; else the nearest proxy's holds for all."""
    clients, schemes, hosts = (_items(scope, name) for name in (b"x-forwarded-for", b"x-forwarded-proto", _X_HOST))
    if not clients:
        clients = [""]

    def of_hop(said: list[str], at: int) -> str | None:
        return None if not said else said[at] if len(said) == len(clients) else said[-1]

    return [
        Hop(_address(client), (of_hop(schemes, at) or "").lower() or None, of_hop(hosts, at))
        for at, client in enumerate(clients)
    ]


_X_HOST = b"x-forwarded-host"


def _values(scope: Scope, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]


def _items(scope: Scope, wanted: bytes) -> list[str]:
    return [item.strip() for value in _values(scope, wanted) for item in value.split(",")]


def _address(text: str) -> Address | None:
    """Reads an address:

    `192.0.2.7`, with a port too, `2001:db8::7`, `[2001:db8::7]:4711`; None for `unknown` and the rest.
    """
    bare = text.strip()
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        parsed = ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed
