"""Remembers each project's last answer about loose things, and how its last try ended."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.model.observation import LooseListing

AGAIN = timedelta(seconds=30)
"""An answer that is younger serves instead of a new one."""


@dataclass(frozen=True, slots=True)
class LooseAnswer:
    """The last try of a project, at `tried_at`. `listing` is the last answer, and Google was asked for it at `read_at`.

    `trouble` says why the last try brought none: then the listing is an older one, or None.
    """

    project: str
    tried_at: datetime
    listing: LooseListing | None = None
    read_at: datetime | None = None
    trouble: str = ""


class LooseMemory:
    """The last answers of all projects. Thread-safe."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._answers: dict[str, tuple[int, LooseAnswer]] = {}  # each with the number of its change
        self._number = 0

    def put(self, *answers: LooseAnswer) -> None:
        with self._news:
            for answer in answers:
                self._number += 1
                self._answers[answer.project] = self._number, answer
            self._news.notify_all()

    def failed(self, project: str, tried_at: datetime, trouble: str) -> None:
        """Keeps the last listing of a project whose try brought none."""
        with self._news:
            last = self.of(project)
            listing, read_at = (None, None) if last is None else (last.listing, last.read_at)
            self.put(LooseAnswer(project, tried_at, listing, read_at, trouble))

    def of(self, project: str) -> LooseAnswer | None:
        with self._news:
            entry = self._answers.get(project)
            return None if entry is None else entry[1]

    def answers(self, projects: Collection[str]) -> Sequence[LooseAnswer]:
        """Returns what is known of these projects; those that were never tried are not in it."""
        with self._news:
            return [self._answers[project][1] for project in projects if project in self._answers]

    def keep_only(self, projects: Collection[str]) -> None:
        """Forgets the projects that are watched no more."""
        with self._news:
            for project in self._answers.keys() - set(projects):
                del self._answers[project]

    def since(self, number: int) -> tuple[int, Sequence[LooseAnswer]]:
        """Returns the answers that came after this change, and the number of the last; 0 is before the first."""
        with self._news:
            is_new = number != self._number
            return self._number, [answer for at, answer in self._answers.values() if at > number] if is_new else []

    def wait_until_tried(self, projects: Collection[str], since: datetime, within: timedelta) -> bool:
        """Waits until each of these projects was tried since then, at most that time. Returns whether all were."""

        def all_tried() -> bool:
            entries = (self._answers.get(project) for project in projects)
            return all(entry is not None and entry[1].tried_at >= since for entry in entries)

        with self._news:
            return self._news.wait_for(all_tried, within.total_seconds())
