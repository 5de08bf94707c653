"""Questions that are asked in threads and within one limit, and why one has no answer."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Self, TypeVar

import structlog

from costguard.doctor.finding import NotAnswered
from costguard.errors import CloudError, CostguardError
from costguard.refusals.explanation import RefusalKind
from costguard.refusals.reader import explain

log = structlog.get_logger(__name__)

_AT_ONCE = 32
# Kinds of answers whose own words mend nothing: what the adapter says next is better.
_SAY_LITTLE = (RefusalKind.UNKNOWN, RefusalKind.REQUEST, RefusalKind.NOT_FOUND, RefusalKind.PERMISSION)
T = TypeVar("T")


class Questions:
    """Questions that threads ask for, all within one limit.

    The threads are daemons: what hangs keeps neither another answer nor the end of the program waiting.
    """

    def __init__(
        self, longest_s: float, threads: int = _AT_ONCE, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.over = threading.Event()
        self._monotonic = monotonic
        self._longest_s = longest_s
        self._end_s = monotonic() + longest_s
        self._threads = threads
        self._work: queue.SimpleQueue[tuple[object, Callable[[], object]] | None] = queue.SimpleQueue()
        self._answers: dict[object, object] = {}
        self._news = threading.Condition()

    def __enter__(self) -> Self:
        for number in range(self._threads):
            threading.Thread(target=self._run, name=f"doctor-{number}", daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.over.set()
        for _ in range(self._threads):
            self._work.put(None)

    def put(self, key: object, question: Callable[[], object]) -> None:
        self._work.put((key, question))

    def answer(self, key: object) -> Any:
        """The answer, or NotAnswered with why there is none, once it is there or the time is up."""
        with self._news:
            self._news.wait_for(lambda: key in self._answers, max(0.0, self._end_s - self._monotonic()))
            return self._answers.get(key, NotAnswered(f"no answer within {self._longest_s:.0f} s."))

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            key, question = work
            answer = attempt(question)
            with self._news:
                self._answers[key] = answer
                self._news.notify_all()


def attempt(question: Callable[[], T]) -> T | NotAnswered:
    """The answer, or why there is none: no error of one question may end the others."""
    try:
        return question()
    except CloudError as error:
        return NotAnswered(_why(error), error.code)
    except CostguardError as error:
        return NotAnswered(str(error))
    except Exception as error:
        log.exception("doctor_question_failed")
        return NotAnswered(f"it could not be asked: {type(error).__name__}: {error}.")


def _why(error: CloudError) -> str:
    """The error, with what mends it. What the answer itself says comes first: a denial by VPC Service Controls, a scope
    or a policy is no missing role.
    """
    explained = explain(error.message)
    if explained.kind in _SAY_LITTLE and not explained.missing.permissions:
        return str(error)
    return f"{error.message} {explained.mend or error.what_next}".strip()
