"""Keeps one item's failure from the others: a VM, a job, a message, a project, a turn."""

from __future__ import annotations

from types import TracebackType

import structlog

from costguard.errors import CostguardError, StoreError

log = structlog.get_logger(__name__)


class Isolated:
    """An error in the block ends the block alone, and is logged: with its trace unless Costguard raised it on purpose.

    What is `passing` goes on to the caller: that the database fails, or the lease is lost, concerns all items.
    """

    __slots__ = ("_event", "_fields", "_passing", "error")

    def __init__(
        self, event: str, *, passing: type[Exception] | tuple[type[Exception], ...] = StoreError, **fields: object
    ) -> None:
        self._event = event
        self._passing = passing
        self._fields = fields
        self.error: Exception | None = None

    def __enter__(self) -> Isolated:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, self._passing):
            return False
        self.error = error
        is_expected = isinstance(error, CostguardError)
        log.error(self._event, error=str(error), exc_info=None if is_expected else error, **self._fields)
        return True

    @property
    def words(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"
