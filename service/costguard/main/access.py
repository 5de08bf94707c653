"""Who may ask: built from the settings and from keys in the database."""

from __future__ import annotations

from datetime import timedelta

from costguard.engine.access.gate import Gate
from costguard.engine.access.seal import Seal
from costguard.engine.access.sessions import Sessions
from costguard.engine.ports import Clock
from costguard.settings import Settings
from costguard.store import signing
from costguard.store.transaction import Database

_KEY = "sessions"
_LASTS = timedelta(hours=12)


def gate(settings: Settings, database: Database, clock: Clock) -> Gate:
    """What every process over this database knows alike: a session holds at each of them."""
    with database.write() as connection:
        seal = Seal(signing.key(connection, _KEY, clock.now()))
    master = settings.token.get_secret_value() if settings.token is not None else None
    return Gate(database, clock, settings.access.access, seal, Sessions(database, clock, seal, _LASTS), master)
