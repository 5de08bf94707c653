"""One question at a time, in a thread of its own, whose answer all who ask meanwhile share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Unanswered(Exception):
    """Nobody has answered for `seconds`; the question is still open."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer for {seconds:.3g} s")
        self.seconds = seconds


class OneQuestion(Generic[_T]):
    """Bounds a question that may hang, such as one to a database behind a silent connection.

    A caller waits at most `within`. However many ask, one thread hangs; and while nothing answers, one caller waits
    for each try, the others get the last failure at once.
    """

    def __init__(self, within: timedelta, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._within_s = within.total_seconds()
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._open: _Asked[_T] | None = None
        self._silent_since: float | None = None  # the beginning of the first question that was not answered in time
        self._failure: Exception | None = None  # of the last question that ended

    def ask(self, question: Callable[[], _T]) -> _T:
        """Its answer. Raises Unanswered, or what the question raises."""
        with self._lock:
            asked = self._open
            if asked is None or asked.ended.is_set():
                asked = self._open = _Asked(self._monotonic())
                threading.Thread(target=self._run, args=(asked, question), name="question", daemon=True).start()
            elif self._failure is not None or self._silent_since is not None:
                raise self._failure or self._unanswered(asked)
        left = asked.began + self._within_s - self._monotonic()
        if not asked.ended.wait(max(0.0, left)):
            with self._lock:
                raise self._unanswered(asked)
        return asked.outcome()

    def _unanswered(self, asked: _Asked[_T]) -> Unanswered:
        if self._silent_since is None:
            self._silent_since = asked.began
        return Unanswered(self._monotonic() - self._silent_since)

    def _run(self, asked: _Asked[_T], question: Callable[[], _T]) -> None:
        try:
            asked.answer = [question()]
            failure = None
        except Exception as error:  # raised again where it is waited for
            asked.failure = failure = error
        with self._lock:
            self._failure = failure
            if failure is None:
                self._silent_since = None
            asked.ended.set()


class _Asked(Generic[_T]):
    def __init__(self, began: float) -> None:
        self.began = began
        self.ended = threading.Event()
        self.answer: list[_T] = []
        self.failure: Exception | None = None

    def outcome(self) -> _T:
        if self.failure is not None:
            raise self.failure
        return self.answer[0]
