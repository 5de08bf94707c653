"""What the pages are made from, passed in by whoever builds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from sqlalchemy import Connection

from costguard.engine.jobs.submit import JobOffice
from costguard.engine.ports import Clock
from costguard.engine.telling.outbox import OutboxTrouble
from costguard.model.webhook import WebhookState
from costguard.policy.rules import Rules
from costguard.store.transaction import Database


class Status(Protocol):
    """What the daemon in this process says of itself."""

    @property
    def is_acting(self) -> bool: ...
    @property
    def last_pass_at(self) -> datetime | None: ...
    @property
    def last_error(self) -> str: ...


class Source(Protocol):
    """The API's dependencies have this shape, and so has what tests pass in."""

    @property
    def database(self) -> Database: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def rules(self) -> Rules: ...
    @property
    def version(self) -> str: ...
    @property
    def stale_after(self) -> timedelta: ...
    @property
    def status(self) -> Callable[[], Status]: ...
    @property
    def outbox_trouble(self) -> Callable[[], OutboxTrouble | None]: ...
    @property
    def socket_trouble(self) -> Callable[[], str]: ...
    @property
    def slack_refused(self) -> Callable[[], Mapping[str, int]]: ...
    @property
    def webhook_states(self) -> Callable[[Connection], Sequence[WebhookState]]: ...
    @property
    def jobs(self) -> JobOffice | None: ...
    @property
    def wake(self) -> Callable[[], None]: ...
