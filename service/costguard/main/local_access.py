"""Access commands that work on the database itself, built from the settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from costguard.access.links import GOOD_FOR, SignInLink, in_charge, sign_in_link
from costguard.access.server_tokens import ServerTokens
from costguard.clock import SystemClock
from costguard.db.transaction import Database
from costguard.db.version import bring_up_to_date
from costguard.errors import SettingsError
from costguard.model.access import Role
from costguard.settings import AccessSettings, Settings

if TYPE_CHECKING:
    from costguard.main.guard import Guard


def new_link(settings: AccessSettings, address: str, role: Role, url: str) -> SignInLink:
    """A link that signs this person in, once; "" is the person in charge. Raises SettingsError."""
    where = url or settings.sign_in.url or settings.server.local_url
    if not where:
        raise SettingsError(
            "The server listens at whatever port is free, so no link can name it.",
            "Give its address with --url, or set a port in server.listen.",
        )
    with _opened(settings) as database:
        return sign_in_link(database, where, address or _in_charge(settings), role, SystemClock().now())


def first_link(guard: Guard, url: str, address: str = "", good_for: timedelta = GOOD_FOR) -> str:
    """An address that signs this person in as an admin, once; "" is the person in charge."""
    who, lasts = address or _in_charge(guard.settings), good_for * guard.speed
    return sign_in_link(guard.database, url, who, Role.ADMIN, guard.clock.now(), lasts).url


def server_tokens(settings: AccessSettings) -> ServerTokens:
    """Makes the token commands' service, which gives the API's answers about tokens without starting a server."""
    url = settings.sign_in.url or settings.server.local_url
    lists = settings.access.access
    return ServerTokens(partial(_opened, settings), lists, _in_charge(settings), url, SystemClock())


def _in_charge(settings: AccessSettings | Settings) -> str:
    return in_charge(settings.reminders.contact, settings.access.admins)


@contextmanager
def _opened(settings: AccessSettings) -> Iterator[Database]:
    url = settings.database.url.get_secret_value()
    bring_up_to_date(url)
    with closing(Database.open(url)) as database:
        yield database
