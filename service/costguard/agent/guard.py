"""The guard, as the VM sees it: it takes events and may answer that the command is to stop."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from typing import Any

from .calls import Http, Trouble
from .files import say, utc
from .settings import Settings
from .spool import Spool

MOST_EVENTS = 200
REFUSALS = (400, 413, 422)


class Guard(threading.Thread):
    """Brings the spool to the guard, in order, for as long as it takes."""

    def __init__(self, settings: Settings, token: str, spool: Spool, on_cancel: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._settings, self._spool, self._on_cancel = settings, spool, on_cancel
        self._url = f"{settings.guard.rstrip('/')}/api/v1/attempts/{settings.attempt}/events"
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._http = Http(settings.guard_ca)
        self._more, self._urgent = threading.Event(), threading.Event()
        self._most, self._failures = MOST_EVENTS, 0
        self.has_answered = threading.Event()  # since this agent began

    def tell(self, kind: str, is_urgent: bool = True, **event: Any) -> None:
        """Safe on disk when this returns. What is urgent does not wait for the end of a pause."""
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
                self._bring(events)
                events = self._spool.batch(self._most)

    def _bring(self, events: list[dict[str, Any]]) -> None:
        try:
            body, _ = self._http(self._url, self._headers, json.dumps({"sent_at": utc(), "events": events}).encode())
            answer = json.loads(body)
            if answer.get("cancel") is True:
                self._on_cancel()
            if not self._spool.accept(int(answer["accepted_through"])):
                raise Trouble("the guard accepted nothing")
            self.has_answered.set()
        except Trouble as trouble:
            if trouble.status in REFUSALS:
                self._narrow(events, trouble)
                return
            self._pause(trouble)
        except Exception as error:  # whatever the guard answers, the next event is brought too
            self._pause(Trouble(f"the guard's answer is not understood: {error!r}"))
        else:
            if self._failures:
                say("the guard answers again")
            self._most, self._failures = MOST_EVENTS, 0

    def _narrow(self, events: list[dict[str, Any]], trouble: Trouble) -> None:
        """One event that the guard does not understand must not hold up all that follow."""
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
