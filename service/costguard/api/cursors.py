"""Opaque cursors: where a page ended, for the next request to continue from."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime

import orjson

from costguard.api.fields import wrong_parameter
from costguard.db.types import EPOCH
from costguard.web.problems import ProblemError

_MAX = 2**63 - 1


def encode(kind: str, *parts: str | int) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([kind, *parts])).decode().rstrip("=")


def decode(cursor: str, kind: str, types: tuple[type[str] | type[int], ...]) -> list[str | int]:
    """The parts that `encode` was given. Raises a 422 problem for anything else."""
    try:
        parts = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise bad() from None
    if not isinstance(parts, list) or parts[:1] != [kind] or len(parts) != len(types) + 1:
        raise bad()
    for part, wanted in zip(parts[1:], types, strict=True):
        if type(part) is not wanted or (isinstance(part, int) and abs(part) > _MAX):
            raise bad()
    return parts[1:]


def decode_id(cursor: str | None, kind: str) -> int | None:
    """The id at which a page ended; None without a cursor."""
    return None if cursor is None else int(decode(cursor, kind, (int,))[0])


def encode_place(kind: str, at: datetime, row_id: str) -> str:
    return encode(kind, micros(at), row_id)


def decode_place(cursor: str | None, kind: str) -> tuple[datetime, str] | None:
    """The moment and the id at which a page of a list by time ended; None without a cursor."""
    if cursor is None:
        return None
    micros, row_id = decode(cursor, kind, (int, str))
    try:
        return EPOCH + int(micros) * EPOCH.resolution, str(row_id)
    except OverflowError:
        raise bad() from None


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // EPOCH.resolution


def bad() -> ProblemError:
    return wrong_parameter(
        "cursor",
        "query.cursor is not a cursor from this list.",
        "Omit `cursor` for the first page, then pass `next_cursor` unchanged, with the same filters and sort.",
        "not a cursor of this list",
    )
