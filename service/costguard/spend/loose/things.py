"""Reports what is remembered of loose things, and has Google asked where a user wants it fresh."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from costguard.ledger.discovery.watch import Watched
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_book import PriceBook
from costguard.spend.loose.memory import AGAIN, LooseMemory
from costguard.spend.loose.report import LooseReport, report_of

WITHIN = timedelta(seconds=20)
"""The longest that a user waits for a fresh look."""
_MOST_WAITING = 4  # users who wait at the same time; the next gets what is remembered by then

Ask = Callable[[Collection[str] | None], None]


class LooseThings:
    """Reports at once, from memory. Thread-safe."""

    def __init__(
        self, memory: LooseMemory, watched: Watched, now: Callable[[], datetime], owners: OwnerRules, ask: Ask
    ) -> None:
        """`ask` has Google asked about these projects, or all, and waits for nobody."""
        self._memory, self._watched, self._now, self._owners, self._ask = memory, watched, now, owners, ask
        self._places = threading.BoundedSemaphore(_MOST_WAITING)

    def report(self, book: PriceBook, project: str | None = None) -> LooseReport:
        """Reports all watched projects, or one. Raises StoreError."""
        projects = self._chosen(project)
        return report_of(projects, self._memory.answers(projects), self._owners, book, self._now())

    def unused(self, book: PriceBook, project: str | None = None) -> LooseReport | None:
        """Reports reservations that nobody uses alone; None while no project was tried. Raises StoreError."""
        projects = self._chosen(project)
        answers = self._memory.answers(projects)
        if not answers:
            return None
        return report_of(projects, answers, self._owners, book, self._now(), only_reservations=True)

    def refresh(self, project: str | None = None, within: timedelta = WITHIN) -> None:
        """Has Google asked about all projects, or this one, and waits for the answers, at most that time.

        What has not come by then comes later: the report says how many projects that is. Raises StoreError.
        """
        projects = self._chosen(project)
        since = self._now() - AGAIN
        self._ask(None if project is None else projects)
        if self._places.acquire(blocking=False):
            try:
                self._memory.wait_until_tried(projects, since, within)
            finally:
                self._places.release()

    def _chosen(self, project: str | None) -> list[str]:
        """Returns the watched projects, or this one where it is watched."""
        return [one for one in self._watched() if project in (None, one)]
