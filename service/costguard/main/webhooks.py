"""The receivers of facts, as the settings have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from costguard import __version__
from costguard.db.transaction import Database
from costguard.model.ports import Clock
from costguard.model.webhook import WebhookResponse
from costguard.settings import Settings
from costguard.webhooks.client import HttpPoster
from costguard.webhooks.delivery import Webhooks


def try_out(settings: Settings, clock: Clock, name: str) -> WebhookResponse:
    """What this receiver answers to a test. Raises Missing and WebhookError."""
    with (
        closing(Database.open(settings.database.url.get_secret_value())) as database,
        webhooks(settings, database, clock) as hooks,
    ):
        return hooks.send_test(name)


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
