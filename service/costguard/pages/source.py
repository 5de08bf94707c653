"""What the pages are made from, passed in by whoever builds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from costguard.access.rules import Rules
from costguard.daemon import health
from costguard.jobs.submit import JobOffice


class Source(health.Guard, Protocol):
    """The API's dependencies have this shape, and so has what tests pass in."""

    @property
    def rules(self) -> Rules: ...
    @property
    def version(self) -> str: ...
    @property
    def jobs(self) -> JobOffice | None: ...
    @property
    def wake(self) -> Callable[[], None]: ...
