"""Proxies say where a request comes from."""

from __future__ import annotations

import socket
import threading
from typing import Any, Literal

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from costguard.web.proxies import TrustedProxies, of_forwarded
from costguard.web.server import Server

# https://cloud.google.com/load-balancing/docs/https#target-proxies: where Google's load balancers come from.
GOOGLE = ("130.211.0.0/22", "35.191.0.0/16")
PEER = "10.0.0.1"


def shown(request: Request) -> JSONResponse:
    said = [name for name in request.headers if "forwarded" in name or name == "x-real-ip"]
    client = request.client.host if request.client else ""
    return JSONResponse({"client": client, "scheme": request.url.scheme, "host": request.headers["host"], "said": said})


def app(*networks: str, header: Literal["x-forwarded", "forwarded"] = "x-forwarded") -> TrustedProxies:
    return TrustedProxies(Starlette(routes=[Route("/", shown)]), networks, header)


def seen(proxies: TrustedProxies, headers: list[tuple[str, str]] | dict[str, str], peer: str = PEER) -> Any:
    client = TestClient(proxies, client=(peer, 4711), base_url="http://guard.example")
    return client.get("/", headers=headers).json()


def x_for(value: str, **more: str) -> dict[str, str]:
    return {"X-Forwarded-For": value, **{f"X-Forwarded-{name.title()}": said for name, said in more.items()}}


SPOOFED = {
    **x_for("6.6.6.6", proto="https", host="evil.example"),
    "Forwarded": "for=6.6.6.6;proto=https;host=evil.example",
    "X-Real-IP": "6.6.6.6",
}


@pytest.mark.parametrize("peer", [PEER, "127.0.0.1", "::1", "203.0.113.9"])
def test_nobody_is_believed_by_default(peer: str) -> None:
    """This machine is not believed either, which uvicorn by itself believes; and nothing behind can read what
    was said.
    """
    assert seen(app(), SPOOFED, peer) == {"client": peer, "scheme": "http", "host": "guard.example", "said": []}
    assert seen(app("192.0.2.0/24"), SPOOFED, peer)["client"] == peer


def test_a_named_proxy_says_who_comes_and_how() -> None:
    """Address, scheme and host; the header that it does not write itself counts for nothing."""
    request = seen(app("10.0.0.0/8"), {**SPOOFED, **x_for("203.0.113.9", proto="https", host="costguard.example.com")})
    assert request == {"client": "203.0.113.9", "scheme": "https", "host": "costguard.example.com", "said": []}
    forwarded = {**SPOOFED, "Forwarded": "for=203.0.113.9;proto=https;host=costguard.example.com"}
    assert seen(app("10.0.0.0/8", header="forwarded"), forwarded) == request


@pytest.mark.parametrize(
    ("value", "client"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("6.6.6.6, 203.0.113.9", "203.0.113.9"),
        ("6.6.6.6, 203.0.113.9, 10.2.3.4", "203.0.113.9"),
        ("10.9.9.9, 203.0.113.9, 10.2.3.4, 10.2.3.5", "203.0.113.9"),
        ("10.9.9.9, 10.2.3.4", "10.9.9.9"),  # all of them ours: the first one
        ("203.0.113.9:4711", "203.0.113.9"),
        ("2001:db8::7", "2001:db8::7"),
        ("[2001:db8::7]:4711", "2001:db8::7"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("6.6.6.6, unknown, 10.2.3.4", "10.2.3.4"),  # past what is no address nothing is believed
        ("6.6.6.6, nonsense", PEER),
        ("", PEER),
    ],
)
def test_the_right_most_stranger_counts(value: str, client: str) -> None:
    """The addresses to the left of it anybody could have sent."""
    assert seen(app("10.0.0.0/8"), x_for(value))["client"] == client


def test_several_lines_are_one_list() -> None:
    """RFC 9110, 5.3: a proxy may add its own line below that of a client."""
    lines = [("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-For", "203.0.113.9")]
    assert seen(app("10.0.0.0/8"), lines)["client"] == "203.0.113.9"


def test_googles_load_balancer() -> None:
    """It adds the client and its own address to what it was sent: `<supplied-value>,<client-ip>,<load-balancer-ip>`.

    Source: https://cloud.google.com/load-balancing/docs/https#x-forwarded-for_header.
    """
    behind = app(*GOOGLE, "34.120.0.7/32")
    request = seen(behind, x_for("6.6.6.6,203.0.113.9,34.120.0.7", proto="https"), peer="130.211.1.9")
    assert (request["client"], request["scheme"]) == ("203.0.113.9", "https")


def test_each_hop_has_its_scheme() -> None:
    """The scheme is the client's where there is one for each hop; else what the nearest proxy says holds."""
    several = x_for("203.0.113.9, 10.2.3.4", proto="https, http")
    assert seen(app("10.0.0.0/8"), several)["scheme"] == "https"
    assert seen(app("10.0.0.0/8"), x_for("203.0.113.9", proto="https, http"))["scheme"] == "http"
    assert seen(app("10.0.0.0/8"), x_for("203.0.113.9", proto="gopher"))["scheme"] == "http"
    assert seen(app("10.0.0.0/8"), {"X-Forwarded-Proto": "https"})["scheme"] == "https"


def test_a_host_is_a_name_and_no_more() -> None:
    """A value that could not stand in an address is left out."""
    for wrong in ("evil.example/x", "a b", "x@y", "h" * 300):
        assert seen(app("10.0.0.0/8"), x_for("203.0.113.9", host=wrong))["host"] == "guard.example"


def test_the_rfcs_own_examples() -> None:
    """RFC 7239, sections 4, 6.3 and 7.1, as they stand there."""
    (first,) = of_forwarded(['for="_gazonk"'])
    assert first.client is None
    (second,) = of_forwarded(['For="[2001:db8:cafe::17]:4711"'])
    assert str(second.client) == "2001:db8:cafe::17"
    (third,) = of_forwarded(["for=192.0.2.60;proto=http;by=203.0.113.43"])
    assert (str(third.client), third.scheme) == ("192.0.2.60", "http")
    assert [str(hop.client) for hop in of_forwarded(["for=192.0.2.43, for=198.51.100.17"])] == [
        "192.0.2.43",
        "198.51.100.17",
    ]
    listed = of_forwarded(['for=192.0.2.43,for="[2001:db8:cafe::17]",for=unknown'])
    assert [hop.client and str(hop.client) for hop in listed] == ["192.0.2.43", "2001:db8:cafe::17", None]
    apart = of_forwarded(["for=192.0.2.43", 'for="[2001:db8:cafe::17]"'])
    assert [str(hop.client) for hop in apart] == ["192.0.2.43", "2001:db8:cafe::17"]


def test_what_cannot_be_read_is_an_unknown_hop() -> None:
    """The hop hides all that stands to its left."""
    behind = app("10.0.0.0/8", header="forwarded")
    for text in ('for="6.6.6.6, for=10.1.1.1', "for=6.6.6.6, ?, for=10.1.1.1", "for=6.6.6.6, =, for=10.1.1.1"):
        assert seen(behind, {"Forwarded": text})["client"] in (PEER, "10.1.1.1"), text
    assert len(of_forwarded([";" * 50_000, "," * 50_000])) > 0


def test_where_proxies_come_from_is_known() -> None:
    """Everybody's connections come from there, so that none of them counts as one client's many."""
    behind = app(*GOOGLE)
    assert behind.is_proxy("35.191.7.7")
    assert not behind.is_proxy("203.0.113.9")
    assert not behind.is_proxy("")


def test_uvicorn_believes_nobody_by_itself() -> None:
    """The server turns uvicorn's default off, which takes the word of 127.0.0.1, and a real request shows it."""
    assert Server(app()).config.proxy_headers is False
    server = Server(app())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            request = httpx2.get(f"http://127.0.0.1:{listening.getsockname()[1]}", headers=SPOOFED, timeout=60).json()
        finally:
            server.stop()
            thread.join()
    assert (request["client"], request["scheme"]) == ("127.0.0.1", "http")
