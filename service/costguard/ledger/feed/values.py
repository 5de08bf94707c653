"""Reads single values of a log entry, whichever tool wrote it: a field of the wrong type is absent. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from costguard.model.observation import EARLIEST, LATEST, MOST

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"\d{9,20}(?:\.\d{1,9})?$")
_OTHER_ZONE = re.compile(r"\s*(?:UTC|GMT)$")


def field(raw: Any, name: str) -> Any:
    """Returns the field with this name; None where `raw` is no object.

    BigQuery and other exports write keys in another case, or with underscores: `methodname`, `instance_id`.
    """
    if not isinstance(raw, dict):
        return None
    if name in raw:
        return raw[name]
    wanted = _folded(name)
    return next((value for key, value in raw.items() if isinstance(key, str) and _folded(key) == wanted), None)


def within(raw: Any, *path: str) -> Any:
    for name in path:
        raw = field(raw, name)
    return raw


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def text(value: Any) -> str | None:
    """A text that says something, of at most 2,000 characters; "..." is how people cut texts out."""
    if not isinstance(value, str) or not (cut := value.strip()[:2000]) or not cut.strip("."):
        return None
    return cut


def number_text(value: Any) -> str | None:
    """A numeric id of Google's, which has up to 20 digits, as a text."""
    if isinstance(value, bool):
        return None
    written = str(value) if isinstance(value, int) else value
    is_id = isinstance(written, str) and written.isascii() and written.isdecimal() and 0 < len(written) <= 20
    return written if is_id and written.strip("0") else None


def whole(value: Any) -> int | None:
    """A whole number that is not negative; Google writes those of 64 bits as texts."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < 1 << 62 else None
    written = number_text(value)
    return None if written is None else int(written)


def amount(value: Any) -> int | None:
    """A size in GiB or a number of devices; None for more than any VM has, which would be money that nobody owes."""
    read = whole(value)
    return read if read is not None and read <= MOST else None


def is_true(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.lower() == "true")


def items(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of a list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def object_of(value: Any) -> dict[str, Any]:
    """An object, also where it was written as a text of JSON, as BigQuery's `requestJson` is; else an empty one."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return {}
    return value if isinstance(value, dict) else {}


def moment(value: Any) -> datetime | None:
    """A time in UTC, as Google and its exports write it; None for what is none.

    A time without an offset is UTC ("2020-05-15 17:55:19.303000000", from Athena and Snowflake), a number counts since
    1970 in seconds, milliseconds, microseconds or nanoseconds, and an object has `seconds` and `nanos`.
    """
    if isinstance(value, dict):
        seconds, nanos = whole(field(value, "seconds")), whole(field(value, "nanos")) or 0
        return None if seconds is None else _counted(seconds * 10**9 + nanos)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value:.6f}" if isinstance(value, float) else str(value)
    if not isinstance(value, str):
        return None
    if _NUMBER.match(value):
        whole_part, _, fraction = value.partition(".")
        unit = 10 ** max(0, 9 - 3 * ((len(whole_part) - 8) // 3))  # nanoseconds in one
        return _counted(int(whole_part) * unit + int(fraction.ljust(9, "0") or 0) * unit // 10**9)
    try:
        parsed = datetime.fromisoformat(_OTHER_ZONE.sub("", value))
        read = parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return read if EARLIEST <= read < LATEST else None


def _counted(nanoseconds: int) -> datetime | None:
    try:
        read = _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:
        return None
    return read if EARLIEST <= read < LATEST else None


def last_part(value: Any) -> str | None:
    """`n1-standard-4` of a whole URL, of `projects/P/zones/Z/machineTypes/n1-standard-4`, or of the name alone."""
    written = text(value)
    name = None if written is None else written[written.rfind("/") + 1 :]
    return name if name and _NAME.match(name) else None


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
