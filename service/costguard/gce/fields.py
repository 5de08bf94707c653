"""Reads single fields of Compute Engine's JSON. Raises Garbled for a value it cannot read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


class Garbled(ValueError):
    """A part of an answer that is not what the API promises; the text says which and how."""


UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)
"""The errors of a reader whose part of an answer is not what the API promises, Garbled among them."""


def moment(text: Any) -> datetime:
    """An RFC 3339 time, in UTC. Raises Garbled, also for a time without an offset."""
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is not None:
            return parsed.astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        pass
    raise Garbled(f"{short(text)} is not a time with an offset")


def moment_or_none(text: Any) -> datetime | None:
    return moment(text) if text else None


def last_part(url: str) -> str:
    """`n1-standard-4` of a URL that ends so. Raises Garbled for anything but a text with an end."""
    if not isinstance(url, str) or not (name := url[url.rfind("/") + 1 :]):
        raise Garbled(f"{short(url)} is not a resource's name")
    return name


def word(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise Garbled(f"{short(value)} stands where a word belongs")
    return value


def short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
