"""Opaque cursors: where a page ended, for the next request to go on from."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from http import HTTPStatus

import orjson

from costguard.db.types import EPOCH
from costguard.web.problems import FieldError, ProblemError

_MAX = 2**63 - 1


def encode(kind: str, *parts: str | int) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([kind, *parts])).decode().rstrip("=")


def decode(cursor: str, kind: str, types: tuple[type[str] | type[int], ...]) -> list[str | int]:
    """The parts that `encode` was given. Raises a 422 problem for anything that it did not make."""
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


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // EPOCH.resolution


def moment(micros: int) -> datetime:
    """Raises a 422 problem for a time that cannot be."""
    try:
        return EPOCH + micros * EPOCH.resolution
    except OverflowError:
        raise bad() from None


def bad() -> ProblemError:
    message = "not a cursor of this list"
    return ProblemError(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "query.cursor is not a cursor that this list gave.",
        "Ask without `cursor` for the first page, and pass `next_cursor` on unchanged, with the same filters and sort.",
        [FieldError(where="query.cursor", message=message)],
    )
