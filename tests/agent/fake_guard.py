"""The guard, as an agent meets it over HTTP: it keeps events by their number, and can be away."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from costguard.clock import SystemClock
from costguard.stages import decide
from costguard.stages.stage import DataStage, StageReport

Event = dict[str, Any]
PATIENCE_S = 90


class FakeGuard:
    """Accepts everything, once. A test waits for an event instead of sleeping."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.token = "the-token-of-this-attempt"
        self.is_to_cancel = False
        self.why = ""  # the command must stop; "" says nothing
        self.drill: int | None = None
        self.save_every_s: float | None = None  # the interval between checkpoints
        self.go: dict[str, object] | None = None  # for a VM that stands by
        self.regroup: dict[str, object] | None = None  # for a VM of several that run one job
        self.save: dict[str, object] | None = None
        self.failure: Callable[[list[Event]], int] = lambda _: 0
        self.claims: list[dict[str, Any]] = []  # bodies of agents that ask for their token
        self.claimed: Callable[[int], tuple[int, bytes]] = lambda _: (404, b"")  # answers the n-th
        self.stages: dict[str, DataStage] = {}  # of data, by digest: granted by the guard's own rules
        self.stage_reports: list[dict[str, Any]] = []
        self.has_stages = True
        self.over: set[str] = set()  # names of attempts whose VMs are gone
        self.requests = 0
        self.paths: set[str] = set()
        self.files: dict[str, bytes] = {}  # what a GET brings, by the path's last part
        self.fetched: list[str] = []
        self._events: dict[int, Event] = {}
        self._changed = threading.Condition()

    @property
    def events(self) -> list[Event]:
        with self._changed:
            return list(self._events.values())

    def kinds(self) -> list[str]:
        """All but heartbeats and points of curves, in the order in which they came."""
        return [event["kind"] for event in self.events if event["kind"] not in ("heartbeat", "progress")]

    def kinds_once(self) -> list[str]:
        """Returns `kinds` without what an agent reports again because the one before was killed before it noted it."""
        kept: dict[object, str] = {}
        for event in self.events:
            if event["kind"] not in ("heartbeat", "progress"):
                key = event["seq"] if event["kind"] == "boot" else (event["kind"], event.get("run"))
                kept.setdefault(key, event["kind"])
        return list(kept.values())

    def wait_for(self, kind: str, fits: Callable[[Event], bool] = lambda _: True, count: int = 1) -> Event:
        """The first event of the kind that fits, or the `count`-th."""
        events: list[Event] = []

        def is_there() -> bool:
            events[:] = [event for event in self._events.values() if event["kind"] == kind and fits(event)]
            return len(events) >= count

        with self._changed:
            assert self._changed.wait_for(is_there, PATIENCE_S), f"no such {kind} among {self._said()}"
        return events[count - 1]

    def _said(self) -> list[Event]:
        """The last events, without what hides the rest."""
        shown = [{name: event[name] for name in event if name != "machine"} for event in self._events.values()]
        return [event for event in shown if event["kind"] != "heartbeat"] + shown[-3:]

    def wait_for_requests(self, more: int) -> None:
        with self._changed:
            wanted = self.requests + more
            assert self._changed.wait_for(lambda: self.requests >= wanted, PATIENCE_S), "the agent does not ask"

    def take(self, path: str, authorisation: str, body: bytes) -> tuple[int, bytes]:
        """Status and answer; status 0 drops the connection, below 0 does so after the events were kept."""
        with self._changed:
            self.requests += 1
            self.paths.add(path)
            self._changed.notify_all()
            if path == "/api/v1/vm-claims":
                self.claims.append(json.loads(body))
                return self.claimed(len(self.claims))
            if authorisation != f"Bearer {self.token}":
                return 401, b"{}"
            if path.endswith("/stage"):
                return self._stage(path.split("/")[-2], json.loads(body))
            events = json.loads(body)["events"]
            status = self.failure(events)
            if status > 0:
                return status, b"not today"
            for event in events if status <= 0 and status != -1 else ():
                self._events.setdefault(event["seq"], event)
            self._changed.notify_all()
            if status < 0:
                return 0, b""
            answer = {
                "cancel": self.is_to_cancel,
                "drill": self.drill,
                "go": self.go,
                "regroup": self.regroup,
                "save": self.save,
                "save_every_s": self.save_every_s,
                "accepted_through": max(self._events),
            }
            return 200, json.dumps({**answer, **({"why": self.why} if self.why else {})}).encode()

    def _stage(self, attempt: str, body: dict[str, Any]) -> tuple[int, bytes]:
        if not self.has_stages:
            return 404, b"{}"
        self.stage_reports.append({"attempt": attempt, **body})
        before = self.stages.get(body["digest"])
        report = StageReport(**{"size" if name == "bytes" else name: value for name, value in body.items()})
        lives = before is not None and before.holder not in self.over
        stage, answer = decide.reported(before, report, attempt, SystemClock().now(), holder_lives=lives)
        self.stages[stage.digest] = stage
        return 200, json.dumps(asdict(answer)).encode()


AWAY, LOSES_ANSWERS = -1, -2


class Listener(ThreadingHTTPServer):
    """Holds its port from the start, and refuses connections until it listens."""

    daemon_threads = True
    _thread: threading.Thread | None = None

    def server_activate(self) -> None:
        pass

    def listen(self) -> None:
        self.socket.listen(16)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self._thread is not None:  # left alone it would poll its closed socket without a pause
            self.shutdown()
            self._thread.join()
        self.server_close()


@contextmanager
def guard_at_a_port() -> Iterator[tuple[FakeGuard, Listener]]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            is_known = self.headers["Authorization"] == f"Bearer {guard.token}"
            content = guard.files.get(name) if is_known else None
            guard.fetched.append(name)
            self.send_response(200 if content is not None else 404 if is_known else 401)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = guard.take(self.path, self.headers.get("Authorization", ""), body)
            if status:
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # an agent that is killed leaves its request behind
                super().handle()

        def log_message(self, *_: object) -> None:
            pass

    listener = Listener(("127.0.0.1", 0), Handler)
    guard = FakeGuard(f"http://127.0.0.1:{listener.server_address[1]}")
    try:
        yield guard, listener
    finally:
        listener.close()
