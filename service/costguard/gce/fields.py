"""Reads single fields of Compute Engine's JSON. Raises Garbled for a value it cannot read."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from sys import intern
from typing import Any

from costguard.model.observation import EARLIEST, LATEST, MOST


class Garbled(ValueError):
    """A part of an answer that is not what the API promises; the text says which and how."""


UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""The errors of a reader whose part of an answer is not what the API promises, Garbled among them."""

_MOST_DIGITS = 20  # of a number of 64 bits
_LONGEST_WORD = 1_000  # what is longer is no name of Google's, and more than an index of a database holds
_LONGEST_TEXT = 2_000


def moment(text: Any) -> datetime:
    """An RFC 3339 time of the years 2008 to 2999, in UTC. Raises Garbled, also for a time without an offset."""
    read = _moment(text)
    if not EARLIEST <= read < LATEST:
        raise Garbled(f"{short(text)} is no time of anything in this cloud")
    return read


def moment_or_none(text: Any) -> datetime | None:
    """A time that may be missing; one outside of the years that `moment` reads says "never". Raises Garbled.

    Google writes 1969-12-31T16:00:00.000-08:00 for what never was: so is `lastResizeTimestamp` of a storage pool in
    the help of its own command line.
    """
    if not text:
        return None
    read = _moment(text)
    return read if EARLIEST <= read < LATEST else None


def _moment(text: Any) -> datetime:
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is not None:
            return parsed.astimezone(UTC)
    except OverflowError:
        return LATEST if parsed.year > EARLIEST.year else parsed.replace(tzinfo=UTC)
    except (ValueError, TypeError):
        pass
    raise Garbled(f"{short(text)} is not a time with an offset")


def number(value: Any, most: int = MOST) -> int:
    """A whole number from 0 to `most`, which Google writes as a number or a text. Raises Garbled.

    A negative or a boundless one would be money that nobody owes, or more than a database holds.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    is_text = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= _MOST_DIGITS
    if (is_number or is_text) and 0 <= (read := int(value)) <= most:
        return read
    raise Garbled(f"{short(value)} stands where a number from 0 to {most:,} belongs")


def last_part(url: str) -> str:
    """`n1-standard-4` of a URL that ends so. Raises Garbled for anything but a text with an end."""
    if not isinstance(url, str) or not 0 < len(name := url[url.rfind("/") + 1 :]) <= _LONGEST_WORD:
        raise Garbled(f"{short(url)} is not a resource's name")
    return name


@lru_cache(maxsize=4096)
def type_name(url: str) -> str:
    """`last_part` of a type, of which a fleet has few: ten thousand VMs share the word."""
    return intern(last_part(url))


def word(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_WORD:
        raise Garbled(f"{short(value)} stands where a word belongs")
    return value


def identity(value: Any) -> str:
    """The number of 64 bits by which Google knows a thing, as a text. Raises Garbled."""
    text = str(value) if isinstance(value, int) else value
    if not isinstance(text, str) or not text.isdecimal() or not text.isascii() or len(text) > _MOST_DIGITS:
        raise Garbled(f"id {short(value)} is not a number")
    return text


def labels(value: Any) -> dict[str, str]:
    """The labels of a thing, or none. Many things have the same ones: they share the words. Raises Garbled."""
    if not value:
        return {}
    if not isinstance(value, dict):
        raise Garbled(f"{short(value)} stands where labels belong")
    return {key: intern(text if type(text) is str else str(text)) for key, text in value.items() if _is_label(text)}


def _is_label(value: Any) -> bool:
    """Says that a label's value is short enough to be one, which has at most 63 characters. Raises Garbled."""
    if isinstance(value, dict | list) or (isinstance(value, str) and len(value) > _LONGEST_WORD):
        raise Garbled(f"{short(value)} stands where the value of a label belongs")
    return True


def said(value: Any) -> str | None:
    """Returns Google's words or code, cut after 2,000 characters; None where it says nothing."""
    if value is None or value == "":
        return None
    return value[:_LONGEST_TEXT] if isinstance(value, str) else short(value)


def short(value: Any) -> str:
    """The value as its first 60 characters, or what it is where it is nested too deeply to be written."""
    try:
        text = repr(value[:60] if isinstance(value, str) else value)
    except RecursionError:
        text = f"a deeply nested {type(value).__name__}"
    return text if len(text) <= 60 else text[:59] + "…"
