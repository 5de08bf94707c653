"""Two processes serve pages on one socket: what one of them has done or promised holds in the other."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from http.client import HTTPConnection
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.authenticators import begin_session
from tests.main.two_processes import PATIENCE_S, PROJECT, TOKEN, Served, forked
from tests.waiting import freeze, until

from costguard.access.sessions import Sessions
from costguard.clock import SystemClock
from costguard.db.transaction import Database
from costguard.model.access import Role, Via
from costguard.web.authentication import COOKIES
from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with (
        running(World(ScaledClock(), projects=[PROJECT])) as cloud,
        forked(tmp_path_factory.mktemp("guard"), cloud, every="1h", workers=2) as made,
    ):
        until(lambda: made.has_passed and len(made.children("pages")) == 2 and made.reports > 0)
        until(lambda: all(_counts(made, pid) for pid in made.children("pages")))
        yield made


def _counts(guard: Served, pid: int) -> bool:
    """Says whether this one answers."""
    with only(guard, pid):
        return guard.get("/healthz")[0] == 200


@contextmanager
def only(guard: Served, pid: int) -> Iterator[None]:
    """Freezes the others, so that all requests for pages go to this one."""
    others = [other for other in guard.children("pages") if other != pid]
    for other in others:
        freeze(other)
    try:
        yield
    finally:
        for other in others:
            os.kill(other, signal.SIGCONT)


def test_a_change_is_seen_by_the_other_at_once(guard: Served) -> None:
    """The other's kept renderings are of an older state of the database: a token's list holds the new one."""
    one, other = guard.children("pages")
    for number, (writing, reading) in enumerate(((one, other), (other, one))):
        with only(guard, reading):
            assert guard.get("/api/v1/events")[0] == 200  # it keeps this rendering
        with only(guard, writing):
            assert _make_token(guard, f"token-{number}", f"key-{number}")[0] == 201
        with only(guard, reading):
            [event, *_] = guard.get("/api/v1/events")[1]["events"]
        assert f"token-{number}" in json.dumps(event)


def test_a_repeated_request_is_known_to_the_other(guard: Served) -> None:
    """The key is in the database: the second answer is the first one's, without its secret."""
    one, other = guard.children("pages")
    with only(guard, one):
        status, made = _make_token(guard, "once", "same-key")
        assert (status, bool(made["secret"])) == (201, True)
    with only(guard, other):
        status, repeated = _make_token(guard, "once", "same-key")
    assert (status, repeated["secret"], repeated["token"]["id"]) == (200, None, made["token"]["id"])


def test_a_session_and_its_forms_hold_in_both(guard: Served) -> None:
    """The proof in a form of one process is the one that the other expects."""
    one, other = guard.children("pages")
    with closing(Database.open(f"sqlite:///{guard.log.parent}/costguard.db")) as database:
        sessions = Sessions(database, SystemClock(), timedelta(hours=1))
        _session, cookie = begin_session(database, sessions, "ada@lab.example", Via.LINK, Role.OPERATOR)
    with only(guard, one):
        page = _page(guard, cookie)
    proof = page.partition('name="csrf" value="')[2].partition('"')[0]
    assert proof
    with only(guard, other):
        assert f'value="{proof}"' in _page(guard, cookie)


def test_each_process_counts_its_own_requests(guard: Served) -> None:
    """The rate protects from a script in a loop: with N processes at most N times as much comes through."""
    one, other = guard.children("pages")
    secret = _make_token(guard, "loop", "loop-key")[1]["secret"]
    with only(guard, one), _asking(guard, secret) as status:
        ends = time.monotonic() + PATIENCE_S
        while status() != 429:
            assert time.monotonic() < ends
    with only(guard, other), _asking(guard, secret) as status:
        assert status() == 200


@contextmanager
def _asking(guard: Served, secret: str) -> Iterator[Callable[[], int]]:
    """Asks over one connection, which is faster than the rate."""

    def ask() -> int:
        client.request("GET", "/api/v1/me", headers={"Authorization": f"Bearer {secret}"})
        answer = client.getresponse()
        answer.read()
        return answer.status

    with closing(HTTPConnection(guard.url.removeprefix("http://"), timeout=PATIENCE_S)) as client:
        yield ask


def _make_token(guard: Served, name: str, key: str) -> tuple[int, Any]:
    return _sent(guard, "/api/v1/tokens", {"name": name, "owner": "ada@lab.example", "role": "viewer"}, key)


def _sent(guard: Served, path: str, body: Any, key: str) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", "Idempotency-Key": key}
    request = Request(guard.url + path, json.dumps(body).encode(), headers)
    with urlopen(request, timeout=PATIENCE_S) as answer:
        return answer.status, json.load(answer)


def _page(guard: Served, cookie: str) -> str:
    headers = {"Cookie": f"{COOKIES[1]}={cookie}", "Accept": "text/html"}
    with urlopen(Request(f"{guard.url}/jobs", headers=headers), timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())
