"""Tells whether uploads keep up with the saves of a command. Pure."""

from __future__ import annotations

from datetime import datetime
from statistics import median
from typing import Iterable

MOST = 20  # saves that are remembered
_BEHIND = 2  # times the time between two saves


class UploadPace:
    """Compares what the command has saved with what is uploaded. All times are of the VM's clock."""

    def __init__(self) -> None:
        self._written: dict[str, datetime] = {}  # when each checkpoint was, by name; the newest saves alone
        self._uploaded: datetime | None = None  # when the newest that is uploaded was written

    def seen(self, name: str, modified: Iterable[datetime]) -> None:
        """Notes a complete checkpoint in the folder, by the times of its files."""
        written = max(modified, default=None)
        if written is not None:
            self._written[name] = written
            newest = sorted(self._written, key=lambda one: self._written[one])[-MOST:]
            self._written = {one: self._written[one] for one in newest}

    def uploaded(self, name: str) -> None:
        """Notes that a checkpoint is uploaded, as far as this node is concerned."""
        written = self._written.get(name)
        if written is not None and (self._uploaded is None or written > self._uploaded):
            self._uploaded = written

    def is_behind(self, now: datetime) -> bool:
        """Says whether the newest uploaded checkpoint is older than twice the time between two saves, while a newer one
        waits. Before two saves, the time between them is not known, and nothing is behind.
        """
        times = sorted(self._written.values())
        gaps = [(later - earlier).total_seconds() for earlier, later in zip(times, times[1:]) if later > earlier]
        if not gaps:
            return False
        since = times[0] if self._uploaded is None else self._uploaded
        waits = self._uploaded is None or times[-1] > self._uploaded
        return waits and (now - since).total_seconds() > _BEHIND * median(gaps)
