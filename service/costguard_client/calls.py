"""Calls of the REST API as values, and how one becomes an HTTP request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

Value = str | int | float | bool | date | datetime | Sequence[str] | None  # of a query parameter
Result = TypeVar("Result", covariant=True)


@dataclass(frozen=True)  # without slots: Call[str](...) notes its type in the object
class Call(Generic[Result]):
    """A request, with its result in its type. The functions in `client.api.operations` make them.

    With a `key` the server carries a repeat out only once. A PUT's body is an open file of `size` bytes.
    """

    method: str
    path: tuple[str, ...]
    parameters: Mapping[str, Value] = field(default_factory=dict)
    body: Any = None
    key: str | None = None
    accept: str = "application/json"
    size: int = 0

    @property
    def is_repeatable(self) -> bool:
        """Says whether a repeat does nothing twice."""
        return self.key is not None or self.method in {"GET", "PUT", "DELETE"}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request to send: the path with its query, relative to the server's address. The content may be an open file."""

    method: str
    target: str
    headers: Mapping[str, str]
    content: Any = None


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    reason: str
    body: bytes
    retry_after: str | None = None  # the header's value


def api(*path: str) -> tuple[str, ...]:
    """A path below the API's root."""
    return ("api", "v1", *path)


def request_of(call: Call[Any], token: str, program: str) -> HttpRequest:
    """`program` is recorded with what the call changes. Raises TypeError for a body that JSON cannot hold."""
    pairs = [pair for name, value in call.parameters.items() for pair in _pairs(name, value)]
    query = f"?{urlencode(pairs)}" if pairs else ""
    headers = {"Accept": call.accept}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if call.key is not None:
        headers["Idempotency-Key"] = call.key
    content = call.body
    if call.method == "PUT":
        content.seek(0)  # a try before this one may have read it
        headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(call.size)}
    if call.method == "POST":
        headers |= {"Content-Type": "application/json", "Costguard-Client": program}
        content = json.dumps(call.body, default=_json_value).encode() if call.body is not None else None
    target = "/".join(quote(part, safe="") for part in call.path)
    return HttpRequest(call.method, f"/{target}{query}", headers, content)


def _pairs(name: str, value: Value) -> list[tuple[str, str]]:
    if value is None:
        return []
    if isinstance(value, bool):
        return [(name, "true" if value else "false")]
    if isinstance(value, str | int | float):
        return [(name, str(value))]
    if isinstance(value, date):
        return [(name, _moment(value))]
    return [(name, item) for item in value]


def _json_value(value: object) -> object:
    """Converts values that the standard library does not write: times, exact dollars, paths, and mappings of
    any kind.
    """
    match value:
        case date():
            return _moment(value)
        case Decimal():
            return f"{value:f}"
        case Path():
            return str(value)
        case Mapping():
            return dict(value)
    raise TypeError(f"{value!r} cannot be sent as JSON.")


def _moment(value: date) -> str:
    if isinstance(value, datetime) and value.tzinfo is None:
        raise TypeError(f"{value!r} has no time zone; give it one, such as datetime(2026, 11, 22, 8, tzinfo=UTC).")
    return value.isoformat()
