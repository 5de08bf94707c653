"""Query results shared between responses that are made from the same state of the database."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from starlette.requests import Request

_T = TypeVar("_T")
_MOST = 100


@dataclass(frozen=True, slots=True)
class Memo:
    """Bound to one state of the database; without memories it keeps nothing. A result is at most `longest` s old."""

    memories: Memories | None = None
    state: Hashable = None
    longest: float = 0.0

    def once(self, question: Hashable, make: Callable[[], _T]) -> _T:
        """The result of `make`, new or kept. Callers must not change it."""
        return make() if self.memories is None else self.memories.once((self.state, question), make, self.longest)


class Memories:
    """The store of results. Thread-safe: one thread makes a result, and the others wait for it."""

    def __init__(self, kept_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._kept_s, self._monotonic = kept_s, monotonic
        self._made: OrderedDict[Hashable, tuple[float, Future[Any]]] = OrderedDict()
        self._lock = threading.RLock()

    def once(self, key: Hashable, make: Callable[[], _T], longest: float) -> _T:
        """The result made at most `longest` seconds ago, or being made."""
        with self._lock:
            self.forget()
            entry, now = self._made.get(key), self._monotonic()
            if entry is not None and entry[1].done() and now - entry[0] > longest:
                entry = None
            mine: Future[Any] = Future()
            if entry is None:
                self._made[key] = (now, mine)
                self._made.move_to_end(key)
        if entry is not None:
            return cast(_T, entry[1].result())
        try:
            made = make()
        except BaseException as error:
            with self._lock:
                self._made.pop(key, None)
            mine.set_exception(error)
            raise
        mine.set_result(made)
        return made

    def forget(self) -> None:
        """Drops old results."""
        oldest = self._monotonic() - self._kept_s
        with self._lock:
            while self._made:
                key, (begun, future) = next(iter(self._made.items()))
                if not future.done() or (begun > oldest and len(self._made) <= _MOST):
                    return
                del self._made[key]


def memo_of(request: Request) -> Memo:
    memo = getattr(request.state, "memo", None)
    return memo if isinstance(memo, Memo) else Memo()
