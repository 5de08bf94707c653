"""Column types that keep their promises on both databases."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from math import isfinite
from typing import Any

from sqlalchemy import BigInteger, Integer
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Timestamp(TypeDecorator[datetime]):
    """An aware moment, kept as whole microseconds since 1970 UTC. A naive one is refused."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002 the base class names it
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone; the ledger takes aware times only")
        return (value - EPOCH) // _MICROSECOND

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002 as above
        return None if value is None else EPOCH + timedelta(microseconds=value)


class DayNumber(TypeDecorator[date]):
    """A UTC day, kept as the number of days since 1970: two bytes in SQLite, where a date is text."""

    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: date | None, dialect: Dialect) -> int | None:  # noqa: ARG002 as above
        return None if value is None else (value - EPOCH.date()).days

    def process_result_value(self, value: Any, dialect: Dialect) -> date | None:  # noqa: ARG002 as above
        return None if value is None else EPOCH.date() + timedelta(days=value)


def storable(value: Any) -> Any:
    """The value as every database takes it, in text or in JSON: nothing of it can make a transaction fail.

    PostgreSQL refuses the character NUL, and no database stores half of a surrogate pair.
    """
    if type(value) is str and value.isascii() and "\0" not in value:
        return value  # nearly every one is so
    if type(value) is dict:
        return {storable(str(key)): storable(item) for key, item in value.items()}
    match value:
        case str():
            text = str(value)
            return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
        case None | bool() | int():
            return value
        case float() if isfinite(value):
            return value
        case datetime() | date():
            return value.isoformat()
        case Mapping():
            return {storable(str(key)): storable(item) for key, item in value.items()}
        case list() | tuple():
            return [storable(item) for item in value]
        case set() | frozenset():
            return sorted(storable(str(item)) for item in value)
        case _:
            return storable(str(value))
