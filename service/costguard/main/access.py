"""Who may ask: built from the settings and from keys in the database."""

from __future__ import annotations

from datetime import timedelta

from costguard.engine.access.gate import Gate
from costguard.engine.access.links import GOOD_FOR, PATH, make_link
from costguard.engine.access.seal import Seal
from costguard.engine.access.sessions import Sessions
from costguard.engine.ports import Clock
from costguard.main.guard import Guard
from costguard.model.access import Role
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


def sign_in_link(guard: Guard, url: str, address: str = "", good_for: timedelta = GOOD_FOR) -> str:
    """An address that signs somebody in as an admin, once: by default whoever answers for the guard."""
    who = address or _in_charge(guard.settings)
    code = make_link(guard.database, who, Role.ADMIN, guard.clock.now(), good_for * guard.speed)
    return f"{url}{PATH}{code}"


def _in_charge(settings: Settings) -> str:
    named = [settings.reminders.contact or "", *settings.access.admins]
    return next((each for each in named if each and not each.startswith("@")), "admin@localhost")
