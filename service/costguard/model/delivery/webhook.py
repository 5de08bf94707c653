"""Webhook receivers, and their answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Webhook:
    """A receiver of events. No kinds, or no projects, means all of them.

    Every secret signs: while one is changed for another, the receiver may know either.
    """

    name: str
    url: str
    secrets: tuple[bytes, ...] = field(repr=False)
    kinds: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """The answer of a receiver. `words` is how its body begins, in one line."""

    status: int
    words: str = ""
    retry_after: timedelta | None = None

    @property
    def is_accepted(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_gone(self) -> bool:
        """The receiver wants no more of it, ever."""
        return self.status == 410


@dataclass(frozen=True, slots=True)
class WebhookState:
    """The state of a receiver. `since` is when the first of the events that wait was recorded."""

    name: str
    waiting: int  # events; of very many, how many at least
    since: datetime | None
    error: str  # why it did not take the last one that it was sent; "" when it did
    accepted_at: datetime | None
