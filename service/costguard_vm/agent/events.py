"""Events for the guard, kept on disk until it accepts them. Its answer may be to stop the command, or to begin it."""

from __future__ import annotations

import json
import os
import random
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from .calls import HttpCalls
from .failures import Trouble
from .files import make_folder, names_in, read, remove, say, utc, write
from .settings import FLAT, AttemptSettings

MOST_BYTES = 512 << 10  # in one request
DROPPED = ("heartbeat", "profile", "activity", "progress")  # where too many events wait, in this order; no others


class Spool:
    """Events on disk until the guard has accepted them, in order; in memory while the disk is full."""

    def __init__(self, folder: str, most: int) -> None:
        make_folder(folder)
        self._folder, self._most = folder, most
        self._lock = threading.Lock()
        self._pending: OrderedDict[int, tuple[str, bytes | None]] = OrderedDict()
        for name in [name for name in names_in(folder) if name.endswith(".json")]:
            self._pending[int(name.split("-")[0])] = (name, None)
        accepted = int(read(os.path.join(folder, "accepted")) or 0)
        self._last = max([accepted, *self._pending])

    def add(self, kind: str, event: Mapping[str, Any]) -> None:
        with self._lock:
            self._last += 1
            content = json.dumps({"seq": self._last, "kind": kind, "at": utc(), **event}).encode()
            name = f"{self._last:012d}-{kind}.json"
            try:
                write(os.path.join(self._folder, name), content)
                self._pending[self._last] = (name, None)
            except OSError as error:
                say(f"an event waits in memory: {error}")
                self._pending[self._last] = (name, content)
            if len(self._pending) > self._most:
                self._drop_one()

    def batch(self, most: int) -> list[dict[str, Any]]:
        """The oldest events, few enough for one request. Unreadable ones are skipped."""
        events: list[dict[str, Any]] = []
        size = 0
        with self._lock:
            for seq, (name, content) in list(self._pending.items()):
                text = content.decode() if content else read(os.path.join(self._folder, name))
                size += len(text)
                if len(events) == most or (events and size > MOST_BYTES):
                    break
                try:
                    events.append(json.loads(text))
                except ValueError:
                    self._forget(seq)
        return events

    def accept(self, through: int) -> bool:
        """Says whether any event was removed.

        Writes the number before it removes events, so that none is used twice.
        """
        with self._lock:
            gone = [seq for seq in self._pending if seq <= through]
            self._last = max(self._last, through)
            if gone:
                try:
                    write(os.path.join(self._folder, "accepted"), str(through).encode())
                except OSError as error:
                    say(f"cannot record what was accepted: {error}")
            for seq in gone:
                self._forget(seq)
        return bool(gone)

    def drop(self, seq: int) -> None:
        with self._lock:
            self._forget(seq)

    def is_empty(self) -> bool:
        return not self._pending

    def _drop_one(self) -> None:
        """The oldest of the kind that is missed least."""
        for droppable in DROPPED:
            for seq, (name, _) in self._pending.items():
                if f"-{droppable}." in name:
                    self._forget(seq)
                    return

    def _forget(self, seq: int) -> None:
        name, _ = self._pending.pop(seq, ("", None))
        remove(os.path.join(self._folder, name))


MOST_EVENTS = 200
REFUSALS = (400, 413, 422)


class EventSender(threading.Thread):
    """Sends the spool to the guard, in order, until it is accepted."""

    def __init__(
        self,
        settings: AttemptSettings,
        token: str,
        spool: Spool,
        on_cancel: Callable[[str], None],
        on_drill: Callable[[int], None] = lambda _: None,
        on_go: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> None:
        super().__init__(daemon=True)
        self._settings, self._spool = settings, spool
        self._on_cancel, self._on_drill, self._on_go = on_cancel, on_drill, on_go
        self._url = f"{settings.guard.rstrip('/')}/api/v1/attempts/{settings.attempt}/events"
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._http = HttpCalls(settings.guard_ca)
        self._more, self._urgent = threading.Event(), threading.Event()
        self._most, self._failures = MOST_EVENTS, 0
        self.on_save: Callable[[float], None] = lambda _: None  # the interval between checkpoints, in seconds
        self.on_answer: Callable[[Mapping[str, Any]], None] = lambda _: None  # takes all of it
        self.has_answered = threading.Event()  # since this agent began

    def send(self, kind: str, is_urgent: bool = True, **event: Any) -> None:
        """Puts an event on disk before it returns. An urgent event does not wait for the end of a pause."""
        self._spool.add(kind, event)
        if is_urgent:
            self._urgent.set()
        self._more.set()

    def is_done(self) -> bool:
        return self._spool.is_empty()

    def run(self) -> None:
        while True:
            self._more.wait()
            self._more.clear()
            events = self._spool.batch(self._most)
            while events:
                self._post(events)
                events = self._spool.batch(self._most)

    def _post(self, events: list[dict[str, Any]]) -> None:
        try:
            body, _ = self._http(self._url, self._headers, json.dumps({"sent_at": utc(), "events": events}).encode())
            answer = json.loads(body)
            if answer.get("cancel") is True:
                self._on_cancel(answer["why"] if answer.get("why") in ("hang", FLAT) else "cancel")
            if type(answer.get("drill")) is int:
                self._on_drill(answer["drill"])
            if type(answer.get("save_every_s")) in (int, float):
                self.on_save(answer["save_every_s"])
            if isinstance(answer.get("go"), dict):
                self._on_go(answer["go"])
            self.on_answer(answer)
            if not self._spool.accept(int(answer["accepted_through"])):
                raise Trouble("the guard accepted nothing")
            self.has_answered.set()
        except Trouble as trouble:
            if trouble.status in REFUSALS:
                self._narrow(events, trouble)
                return
            self._pause(trouble)
        except Exception as error:  # whatever the guard answers, the next event is sent too
            self._pause(Trouble(f"the guard's answer is not understood: {error!r}"))
        else:
            if self._failures:
                say("the guard answers again")
            self._most, self._failures = MOST_EVENTS, 0

    def _narrow(self, events: list[dict[str, Any]], trouble: Trouble) -> None:
        """An event that the guard refuses must not hold up all that follow."""
        self._most = 1
        if len(events) == 1:
            say(f"event {events[0].get('seq')} is given up: {trouble}")
            self._spool.drop(events[0]["seq"])
            self._most = MOST_EVENTS

    def _pause(self, trouble: Trouble) -> None:
        if not self._failures:
            say(f"events wait on disk: {trouble}")
        longest = min(self._settings.retry_most_s, self._settings.retry_s * 2 ** min(self._failures, 20))
        self._failures += 1
        self._urgent.clear()
        self._urgent.wait(longest * random.uniform(0.5, 1))
