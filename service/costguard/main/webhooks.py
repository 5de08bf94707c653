"""The receivers of facts, as the settings have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from costguard import __version__
from costguard.engine.ports import Clock
from costguard.engine.webhooks import Webhooks
from costguard.settings import Settings
from costguard.store.transaction import Database
from costguard.webhooks.client import HttpPoster


@contextmanager
def webhooks(
    settings: Settings,
    database: Database,
    clock: Clock,
    told: Callable[[str, str], None] = lambda _name, _outcome: None,
) -> Iterator[Webhooks]:
    """`told` hears how each message to a receiver ended."""
    poster = HttpPoster(__version__)
    hooks = Webhooks(database, poster, clock, settings.webhook_list(), told)
    try:
        yield hooks
    finally:
        hooks.close()
        poster.close()
