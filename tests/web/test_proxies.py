"""Proxies that the settings name say where a request comes from, through a real server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.waiting import PATIENCE_S

from costguard.web.server import Server

# https://cloud.google.com/load-balancing/docs/https#target-proxies: where Google's load balancers come from.
GOOGLE = ("130.211.0.0/22", "35.191.0.0/16", "34.120.0.7/32")
HERE, HERE_OF_IPV6 = "127.0.0.0/8", "::1/128"


def shown(request: Request) -> JSONResponse:
    client = request.client.host if request.client else ""
    return JSONResponse({"client": client, "scheme": request.url.scheme, "host": request.headers["host"]})


@contextmanager
def served(*proxies: str, at: str = "127.0.0.1") -> Iterator[str]:
    server = Server(Starlette(routes=[Route("/", shown)]), proxies)
    family = socket.AF_INET6 if ":" in at else socket.AF_INET
    with socket.create_server((at, 0), family=family, dualstack_ipv6=at == "::") as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.stop()
            thread.join()


def seen(url: str, headers: list[tuple[str, str]] | dict[str, str]) -> Any:
    return httpx2.get(url, headers=headers, timeout=PATIENCE_S).json()


def x_for(value: str, **more: str) -> dict[str, str]:
    return {"X-Forwarded-For": value, **{f"X-Forwarded-{name.title()}": said for name, said in more.items()}}


SPOOFED = {
    **x_for("6.6.6.6", proto="https", host="evil.example"),
    "Forwarded": "for=6.6.6.6;proto=https;host=evil.example",
    "X-Real-IP": "6.6.6.6",
}


@pytest.mark.parametrize("proxies", [(), ("192.0.2.0/24",)], ids=["by default", "from elsewhere"])
def test_nobody_else_is_believed(proxies: tuple[str, ...]) -> None:
    """This machine is not believed either, which uvicorn by itself believes."""
    with served(*proxies) as url:
        assert seen(url, SPOOFED) == {"client": "127.0.0.1", "scheme": "http", "host": url.removeprefix("http://")}


def test_environment_names_no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of uvicorn's own would, where it is read."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    with served("192.0.2.0/24") as url:
        assert seen(url, SPOOFED)["client"] == "127.0.0.1"


def test_a_named_proxy_says_who_comes_and_how() -> None:
    """It is believed about the address and the scheme; the other headers count for nothing."""
    with served(HERE) as url:
        request = seen(url, {**SPOOFED, **x_for("203.0.113.9", proto="https")})
    assert request == {"client": "203.0.113.9", "scheme": "https", "host": url.removeprefix("http://")}


def test_a_proxy_is_known_where_one_socket_takes_ipv4_and_ipv6() -> None:
    """There its address has the form ::ffff:127.0.0.1."""
    with served(HERE, HERE_OF_IPV6, at="::") as url:
        assert seen(url, x_for("203.0.113.9"))["client"] == "203.0.113.9"


@pytest.mark.parametrize(
    ("value", "client"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("6.6.6.6, 203.0.113.9", "203.0.113.9"),
        ("6.6.6.6, 203.0.113.9, 127.2.3.4", "203.0.113.9"),
        ("127.9.9.9, 203.0.113.9, 127.2.3.4, 127.2.3.5", "203.0.113.9"),
        ("127.9.9.9, 127.2.3.4", "127.9.9.9"),  # all of them ours: the first one
        ("203.0.113.9:4711", "203.0.113.9"),
        ("2001:db8::7", "2001:db8::7"),
        ("[2001:db8::7]:4711", "2001:db8::7"),
        ("6.6.6.6, unknown, 127.2.3.4", "unknown"),  # past what is no address nothing is believed
        ("", "127.0.0.1"),
    ],
)
def test_the_right_most_stranger_counts(value: str, client: str) -> None:
    """The addresses to the left of it anybody could have sent."""
    with served(HERE) as url:
        assert seen(url, x_for(value))["client"] == client


def test_several_lines_are_one_list() -> None:
    """RFC 9110, 5.3: a proxy may add its own line below that of a client."""
    lines = [("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-For", "203.0.113.9")]
    with served(HERE) as url:
        assert seen(url, lines)["client"] == "203.0.113.9"


def test_googles_load_balancer() -> None:
    """It adds the client and its own address to what it was sent: `<supplied-value>,<client-ip>,<load-balancer-ip>`.

    Source: https://cloud.google.com/load-balancing/docs/https#x-forwarded-for_header.
    """
    with served(HERE, *GOOGLE) as url:
        request = seen(url, x_for("6.6.6.6,203.0.113.9,34.120.0.7", proto="https"))
    assert (request["client"], request["scheme"]) == ("203.0.113.9", "https")


@pytest.mark.parametrize("scheme", ["gopher", "https, http", ""])
def test_a_scheme_is_http_or_https_and_no_more(scheme: str) -> None:
    """The scheme stays as it is where a proxy writes something else."""
    with served(HERE) as url:
        assert seen(url, x_for("203.0.113.9", proto=scheme))["scheme"] == "http"
