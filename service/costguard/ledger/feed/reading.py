"""Finds log entries in what carries them: a file of JSON, lines of JSON, a Pub/Sub message, a CloudEvent. Pure."""

from __future__ import annotations

import base64
import binascii
import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from costguard.ledger.feed.entry import FeedEntry, read_entry
from costguard.ledger.feed.values import field, within

_DEEPEST = 6  # envelopes within envelopes
_LISTS = ("entries", "receivedMessages", "events")  # of the Logging API, of a pull from Pub/Sub, of Elastic's samples
_ENCODED = ("data", "data_base64")
_INSIDE = (*_ENCODED, "message", "json")


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
    if entry is not None:
        return entry
    if within(raw, "jsonPayload", "event_subtype") is not None:
        return Torn("it is of Compute Engine's old activity log: the audit log has an entry of the same event")
    return Torn("it has no protoPayload, so it is no entry of an audit log")


def _parsed(data: bytes | str, depth: int = 0) -> Iterator[Any]:
    raw = _in_utf8(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)
    if not raw:
        yield Torn("it is empty")
        return
    try:
        yield from _unwrapped(orjson.loads(raw), depth)
    except orjson.JSONDecodeError as error:
        yield from _several(raw, str(error), depth)


def _in_utf8(raw: bytes) -> bytes:
    """Returns the text without its byte order mark. Redirected output of Windows PowerShell is in UTF-16."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raw = raw.decode("utf-16", "replace").encode("utf-8", "replace")
    return raw.removeprefix(codecs.BOM_UTF8).strip()


def _several(raw: bytes, why: str, depth: int) -> Iterator[Any]:
    """JSON lines, as an export writes them, or one value after the other, as jq does. Else all is one torn part."""
    lines = [_line(place, line) for place, line in enumerate(raw.splitlines(), start=1) if line.strip()]
    values = lines if isinstance(lines[0], dict) else _in_a_row(raw)
    if not any(isinstance(value, dict) for value in values):
        values = lines
    if not any(isinstance(value, dict) for value in values):
        yield Torn(f"it is no JSON: {why}")
        return
    for value in values:
        yield from [value] if isinstance(value, Torn) else _unwrapped(value, depth)


def _line(place: int, line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return Torn(f"line {place} is no JSON: {error}")


def _in_a_row(raw: bytes) -> list[Any]:
    """Values of JSON that follow each other, over as many lines as they take; the first that is torn ends them."""
    text, at, values = raw.decode("utf-8", "replace"), 0, list[Any]()
    decoder = json.JSONDecoder()
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, at) + 1
            return [*values, Torn(f"what begins in line {line} is no JSON: {error or 'it is too deep'}")]
        values.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return values


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
    """A push or a pull of Pub/Sub has the entry in `message.data`, a CloudEvent in `data` or `data_base64`.

    Log shippers have it as a text in `message`, and Elastic's own samples in `json`.
    """
    if field(value, "protoPayload") is None:
        for name in _INSIDE:
            inner = value.get(name)
            if isinstance(inner, dict):
                yield from _unwrapped(inner, depth + 1)
                return
            if isinstance(inner, str) and (name in _ENCODED or inner.lstrip().startswith("{")):
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
