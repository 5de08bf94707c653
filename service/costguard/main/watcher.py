"""The process that watches, as the one that serves knows it: what it said last, and what it can be asked for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

import structlog

from costguard.main.wire import Alive, Asked, State, Wake, Wire

_SILENT_AFTER = timedelta(seconds=10)  # it speaks every second

log = structlog.get_logger(__name__)


class Watcher:
    """Nothing here waits for the other process: what is asked twice before it could be sent is sent once.

    `gone` is called once when the wire is cut.
    """

    def __init__(self, wire: Wire, gone: Callable[[], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wire = wire
        self._gone = gone
        self._monotonic = monotonic
        self._heard_at_s = monotonic()
        self._news = threading.Condition()
        self._wakes: set[Asked] = set()
        self._is_alive = False
        self.state = State()

    def start(self) -> None:
        for work in (self._listen, self._speak):
            threading.Thread(target=work, name=f"watcher-{work.__name__}", daemon=True).start()

    @property
    def silent_for(self) -> timedelta | None:
        """How long it has said nothing, where that is too long."""
        silence = timedelta(seconds=self._monotonic() - self._heard_at_s)
        return silence if silence > _SILENT_AFTER else None

    def wake(self, what: Asked) -> None:
        with self._news:
            self._wakes.add(what)
            self._news.notify()

    def alive(self) -> None:
        """Requests are answered; to be said every now and then."""
        with self._news:
            self._is_alive = True
            self._news.notify()

    def _listen(self) -> None:
        try:
            while (message := self._wire.receive()) is not None:
                if isinstance(message, State):
                    self.state = message
                self._heard_at_s = self._monotonic()
        except (OSError, ValueError) as error:
            log.error("watching_process_not_understood", error=str(error))
        self._gone()

    def _speak(self) -> None:
        try:
            while True:
                with self._news:
                    self._news.wait_for(lambda: self._wakes or self._is_alive)
                    wakes, is_alive = self._wakes, self._is_alive
                    self._wakes, self._is_alive = set(), False
                if is_alive:
                    self._wire.send(Alive())
                for what in sorted(wakes):
                    self._wire.send(Wake(what=what))
        except OSError:
            pass  # it is gone, as the thread that listens finds, too
