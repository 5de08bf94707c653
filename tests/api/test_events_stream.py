"""Events are streamed as they are recorded, over a real connection."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import uvicorn
from starlette.types import Message
from tests.api import rows
from tests.api.conftest import deps_of
from tests.api.rows import NOW
from tests.authenticators import keyed
from tests.loops import run

from costguard.api.app import create_app
from costguard.db.transaction import Database
from costguard.events import stream
from costguard.events.open_streams import Streams
from costguard.model.access import Credentials, Principal, Stranger
from costguard.web.rendering import empty_request


class Revocable:
    """Lets everybody in with the key, until it is revoked."""

    def __init__(self) -> None:
        self._authenticator = keyed("s3cret")
        self.is_revoked = False

    def who(self, shown: Credentials) -> Principal | Stranger:
        return Stranger("It was revoked.", "Make another.") if self.is_revoked else self._authenticator.who(shown)

    def csrf(self, principal: Principal) -> str:
        return self._authenticator.csrf(principal)

    def is_csrf(self, principal: Principal, text: str) -> bool:
        return self._authenticator.is_csrf(principal, text)


class Heard:
    """A listener. Reading blocks until something comes, and fails after 30 s of silence."""

    def __init__(self, port: int, query: str = "", **headers: str) -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", f"/api/v1/events/stream{query}", headers={"Authorization": "Bearer s3cret", **named})
        self.answer: HTTPResponse = connection.getresponse()
        self.connection = connection

    def event(self) -> dict[str, str]:
        """The next one, with its fields; empty once the stream is over. Comments are passed over."""
        fields: dict[str, str] = {}
        while line := self.answer.readline():
            name, colon, value = line.decode().rstrip("\n").partition(": ")
            if not colon and fields.get("id"):
                return fields
            fields = fields | {name: value} if colon and name else {}
        return {}

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


def admitted(port: int, query: str = "", **headers: str) -> Heard:
    """A listener that has a place: one that has just ended is freed a moment later."""
    pause = threading.Event()
    for _ in range(300):
        listener = Heard(port, query, **headers)
        if listener.answer.status != HTTPStatus.TOO_MANY_REQUESTS:
            return listener
        listener.close()
        pause.wait(0.1)
    raise AssertionError("no place was freed within 30 s")


class Served:
    def __init__(self, database: Database, port: int, server: uvicorn.Server, authenticator: Revocable) -> None:
        self.database, self.port, self.server, self.authenticator = database, port, server, authenticator

    def event(self, key: str, **given: Any) -> None:
        with self.database.write() as connection:
            rows.event(connection, key, NOW, **given)


@contextmanager
def served(database: Database) -> Iterator[Served]:
    authenticator = Revocable()
    streams = Streams(most=2, every=0.01, ask_again_after=0.05)

    def is_stopping() -> bool:
        return server.should_exit

    deps = replace(deps_of(database), authenticator=authenticator, streams=streams, is_stopping=is_stopping)
    server = uvicorn.Server(uvicorn.Config(create_app(deps), log_config=None, lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield Served(database, listening.getsockname()[1], server, authenticator)
        finally:
            server.should_exit = True
            thread.join()


def test_events_come_as_they_are_recorded(sqlite_database: Database) -> None:
    """The same as in the list, filtered; a client that reconnects misses nothing, and receives nothing twice."""
    with served(sqlite_database) as place:
        place.event("before")
        all_of_it, some = Heard(place.port, "?after=0"), Heard(place.port, "?kind=PriceRefused&kind=VmStopped")
        assert all_of_it.answer.headers["content-type"].startswith("text/event-stream")
        first = all_of_it.event()
        listed = _listed(place.port)
        assert (first["event"], first["id"], json.loads(first["data"])) == (listed["kind"], "1", listed)
        place.event("second")
        place.event("third", kind="PriceRefused", project="")
        assert [all_of_it.event()["id"], all_of_it.event()["id"], some.event()["id"]] == ["2", "3", "3"]
        all_of_it.close()
        some.close()
        place.event("meanwhile")
        again = admitted(place.port, "?after=0", Last_Event_ID="3")
        assert again.event()["id"] == "4"
        again.close()


def test_an_event_recorded_once_the_response_began_is_streamed(sqlite_database: Database) -> None:
    """The event is streamed also before the stream has looked at the database for the first time."""
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)
        if message["type"] == "http.response.start":
            with sqlite_database.write() as connection:
                rows.event(connection, "first", NOW)

    turns = iter(range(200))

    def is_stopping() -> bool:
        return any(b"id: 1\n" in message.get("body", b"") for message in messages) or next(turns, None) is None

    streams = Streams(every=0.01)
    deps = replace(deps_of(sqlite_database), authenticator=keyed("s3cret"), streams=streams, is_stopping=is_stopping)
    headers = [(b"host", b"guard"), (b"authorization", b"Bearer s3cret")]
    place = {"type": "http", "method": "GET", "path": "/api/v1/events/stream", "query_string": b"", "scheme": "http"}
    scope = {**place, "headers": headers, "server": ("guard", 80), "client": ("127.0.0.1", 1)}
    run(create_app(deps)(scope, empty_request(), send))
    assert b"id: 1\n" in b"".join(message.get("body", b"") for message in messages)


def test_a_stream_ends(sqlite_database: Database) -> None:
    """When its token is revoked, and when the server stops; one that nobody reads any more frees its place."""
    with served(sqlite_database) as place:
        first, second = Heard(place.port), Heard(place.port)
        third = Heard(place.port)
        assert (third.answer.status, json.loads(third.answer.read())["type"]) == (429, "/problems/too-many-streams")
        place.authenticator.is_revoked = True
        assert (first.event(), second.event()) == ({}, {})
        place.authenticator.is_revoked = False
        stays = admitted(place.port)
        place.server.should_exit = True
        assert stays.event() == {}
        for stream in (first, second, third, stays):
            stream.close()


def test_what_is_no_place_in_the_record_is_refused(sqlite_database: Database) -> None:
    """A 422 problem before anything is streamed."""
    with served(sqlite_database) as place:
        for query, headers in (("?after=-1", {}), ("?kinds=x", {}), ("", {"Last_Event_ID": "x"})):
            refused = Heard(place.port, query, **headers)
            assert (refused.answer.status, refused.answer.headers["content-type"]) == (422, "application/problem+json")
            refused.close()
        with place.database.read() as connection:
            assert stream.latest_id(connection) == 0


def _listed(port: int) -> Any:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/api/v1/events", headers={"Authorization": "Bearer s3cret"})
    answer = connection.getresponse()
    event = json.loads(answer.read())["events"][0]
    connection.close()
    return event
