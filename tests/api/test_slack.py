"""Slack's addresses: no token, one method, a bound on what is read, and no reason for callers who is not Slack."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest
import uvicorn
from fastapi.testclient import TestClient
from tests.authenticators import keyed

from costguard.api.app import create_app
from costguard.api.deps import Deps
from costguard.db.transaction import Database
from costguard.errors import StoreError
from costguard.model.delivery.interaction import InteractionReply

PATHS = ("/slack/interactions", "/slack/commands")
LIMIT = 1000


class FakeReceiver:
    """Takes whatever it is given."""

    body_limit = LIMIT

    def __init__(self) -> None:
        self.refused: dict[str, int] = {}
        self.taken: list[tuple[str, Mapping[str, str], bytes]] = []
        self.trouble: Exception | None = None
        self.came = threading.Event()  # something to refuse

    def interaction(self, headers: Mapping[str, str], body: bytes) -> InteractionReply:
        if self.trouble is not None:
            raise self.trouble
        self.taken.append(("interaction", headers, body))
        return InteractionReply(200, {})

    def command(self, headers: Mapping[str, str], body: bytes) -> InteractionReply:
        self.taken.append(("command", headers, body))
        return InteractionReply(200, {"response_type": "ephemeral", "text": "None."})

    def refuse(self, reason: str) -> InteractionReply:
        self.refused[reason] = self.refused.get(reason, 0) + 1
        self.came.set()
        return InteractionReply(401)


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """Makes a database. These answers rest on no SQL of either kind."""
    return sqlite_database


@pytest.fixture
def receiver() -> FakeReceiver:
    return FakeReceiver()


@pytest.fixture
def knocking(client_with: Callable[..., TestClient], receiver: FakeReceiver) -> TestClient:
    return client_with(slack=receiver, authenticator=keyed("s3cret"))


def test_what_slack_sends_comes_as_it_was_sent(knocking: TestClient, receiver: FakeReceiver) -> None:
    """The request needs no token: every byte and every header reach the receiver, and its answer goes back as JSON."""
    body = b"payload=%7B%7D&\xff"
    answer = knocking.post("/slack/interactions", content=body, headers={"X-Slack-Signature": "v0=1"})
    assert (answer.status_code, answer.json(), answer.headers["content-type"]) == (200, {}, "application/json")
    answer = knocking.post("/slack/commands", content=b"text=")
    assert answer.json() == {"response_type": "ephemeral", "text": "None."}
    (first, headers, given), (second, _, _) = receiver.taken
    assert (first, second, given, headers["x-slack-signature"]) == ("interaction", "command", body, "v0=1")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_anything_but_a_post_is_refused(knocking: TestClient, receiver: FakeReceiver, path: str, method: str) -> None:
    """It is counted, told nothing, and does not reach the handlers."""
    answer = knocking.request(method, path)
    assert (answer.status_code, answer.content) == (401, b"")
    assert (receiver.refused, receiver.taken) == ({"method": 1}, [])


@pytest.mark.parametrize("path", PATHS)
def test_too_much_is_refused_and_not_read(knocking: TestClient, receiver: FakeReceiver, path: str) -> None:
    """A body over the limit is refused by its announced length, or as soon as more than the limit came."""
    drawn = 0

    def endless() -> Iterator[bytes]:
        nonlocal drawn
        while drawn < 100:
            drawn += 1
            yield b"x" * 600

    answers = [
        knocking.post(path, content=b"x" * (LIMIT + 1)),
        knocking.post(path, content=b"", headers={"Content-Length": str(LIMIT + 1)}),
        knocking.post(path, content=endless()),
    ]
    assert [(answer.status_code, answer.content) for answer in answers] == [(401, b"")] * 3
    assert (receiver.refused, receiver.taken) == ({"oversized": 3}, [])
    assert knocking.post(path, content=b"", headers={"Content-Length": "9" * 400}).status_code == 413, "by the receiver"
    assert knocking.post(path, content=b"x" * LIMIT).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_without_slack_there_is_no_such_address(client: TestClient, path: str) -> None:
    """A 404 that says which setting opens it."""
    answer = client.post(path, content=b"payload=1")
    assert answer.status_code == 404
    assert "signing_secret" in answer.json()["next"]


def test_it_is_not_in_the_description(knocking: TestClient) -> None:
    """Slack's addresses are not for people."""
    described = knocking.get("/openapi.json", headers={"Authorization": "Bearer s3cret"}).json()
    assert not [path for path in described["paths"] if path.startswith("/slack")]


def test_no_other_address_of_slacks_is_open(knocking: TestClient) -> None:
    """The two exact paths alone go without the token."""
    for path in ("/slack", "/slack/", "/slack/events", "/slack/interactions/", "/slack/commands/x"):
        assert knocking.post(path).status_code == 401
        assert "bearer token" in knocking.post(path).text


def test_what_the_database_says_is_a_503(knocking: TestClient, receiver: FakeReceiver) -> None:
    """Slack then shows the person that it failed."""
    receiver.trouble = StoreError("The database is locked.", "Try again.")
    assert knocking.post("/slack/interactions", content=b"x").status_code == 503


def test_readiness_counts_what_was_refused(client_with: Callable[..., TestClient], receiver: FakeReceiver) -> None:
    """/readyz shows the refusals by reason, by whichever way they came."""
    receiver.refused["malformed"] = 2  # over a socket
    knocking = client_with(slack=receiver, slack_refused=lambda: receiver.refused)
    knocking.get("/slack/commands")
    assert knocking.get("/readyz").json()["slack_refused"] == {"malformed": 2, "method": 1}
    assert client_with(slack_refused=lambda: {"malformed": 2}).get("/readyz").json()["slack_refused"] == {
        "malformed": 2
    }


@contextmanager
def serving(deps: Deps) -> Iterator[int]:
    server = uvicorn.Server(uvicorn.Config(create_app(deps), log_config=None, lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def test_a_body_that_breaks_off_is_refused(deps: Deps, receiver: FakeReceiver) -> None:
    """The connection ends in mid-body: nothing of it is judged, and it is counted."""
    with serving(replace(deps, slack=receiver)) as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"POST /slack/interactions HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\npayload=")
        assert receiver.came.wait(30)
    assert (receiver.refused, receiver.taken) == ({"truncated": 1}, [])


def test_a_flood_is_cut_off(deps: Deps, receiver: FakeReceiver) -> None:
    """A real server answers an endless body after the limit, without taking the rest."""
    with serving(replace(deps, slack=receiver)) as port, socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(
            b"POST /slack/commands HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"258\r\n" + b"x" * 600 + b"\r\n" + b"258\r\n" + b"x" * 600 + b"\r\n"
        )  # fmt: skip
        assert client.recv(100).startswith(b"HTTP/1.1 401")
    assert (receiver.refused, receiver.taken) == ({"oversized": 1}, [])
