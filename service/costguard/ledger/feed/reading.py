"""Finds log entries in what carries them: a file of JSON, lines of JSON, a Pub/Sub message, a CloudEvent. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from costguard.ledger.feed.entry import FeedEntry, read_entry
from costguard.ledger.feed.values import field

_DEEPEST = 6  # envelopes within envelopes
_LISTS = ("entries", "receivedMessages")  # of the Logging API's `entries.list`, and of a pull from Pub/Sub


@dataclass(frozen=True, slots=True)
class Torn:
    """A part that holds no log entry, and why."""

    why: str


def read_entries(data: bytes | str) -> list[FeedEntry | Torn]:
    """Every log entry in this, in order; for each part that is none, why. Raises nothing."""
    return [_read(raw) for raw in _parsed(data)]


def _read(raw: Any) -> FeedEntry | Torn:
    if isinstance(raw, Torn):
        return raw
    entry = read_entry(raw)
    return entry if entry is not None else Torn("it has no protoPayload, so it is no entry of an audit log")


def _parsed(data: bytes | str, depth: int = 0) -> Iterator[Any]:
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    raw = raw.removeprefix(b"\xef\xbb\xbf").strip()
    if not raw:
        yield Torn("it is empty")
        return
    try:
        yield from _unwrapped(orjson.loads(raw), depth)
    except orjson.JSONDecodeError as error:
        yield from _lines(raw, str(error), depth)


def _lines(raw: bytes, why: str, depth: int) -> Iterator[Any]:
    """JSON lines, as an export writes them. Where no line is an object, all of it is one torn part."""
    lines = [_line(place, line) for place, line in enumerate(raw.splitlines(), start=1) if line.strip()]
    if not any(isinstance(line, dict) for line in lines):
        yield Torn(f"it is no JSON: {why}")
        return
    for line in lines:
        yield from [line] if isinstance(line, Torn) else _unwrapped(line, depth)


def _line(place: int, line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return Torn(f"line {place} is no JSON: {error}")


def _unwrapped(value: Any, depth: int) -> Iterator[Any]:
    if depth > _DEEPEST:
        yield Torn("it is wrapped too often")
    elif isinstance(value, list):
        for one in value:
            yield from _unwrapped(one, depth + 1)
    elif not isinstance(value, dict):
        yield Torn("it is no object")
    elif (inner := next((one for name in _LISTS if isinstance(one := field(value, name), list)), None)) is not None:
        yield from _unwrapped(inner, depth + 1)
    else:
        yield from _out_of_envelope(value, depth)


def _out_of_envelope(value: dict[str, Any], depth: int) -> Iterator[Any]:
    """A push or a pull of Pub/Sub has the entry in `message.data`, a CloudEvent in `data` or `data_base64`."""
    message = field(value, "message")
    if isinstance(message, dict) and "data" in message:
        yield from _out_of_envelope(message, depth + 1)
        return
    if field(value, "protoPayload") is None:
        for name in ("data", "data_base64"):
            inner = value.get(name)
            if isinstance(inner, dict):
                yield from _unwrapped(inner, depth + 1)
                return
            if isinstance(inner, str):
                yield from _decoded(inner, depth)
                return
    yield value


def _decoded(data: str, depth: int) -> Iterator[Any]:
    if data.lstrip().startswith("{"):
        yield from _parsed(data, depth + 1)
        return
    try:
        yield from _parsed(base64.b64decode(data, validate=True), depth + 1)
    except (binascii.Error, ValueError):
        yield Torn("its data are no base64")
