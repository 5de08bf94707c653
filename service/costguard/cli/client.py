"""A client of the Costguard API. Standard library only, so that a command starts quickly."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from costguard.cli import profile
from costguard.errors import CostguardError, ServerUnreachable

DEFAULT_URL = ""  # the profile's server, else this computer's
THIS_COMPUTER = "http://127.0.0.1:8765"
_TIMEOUT_S = 30
_GOOD = frozenset({200, 201, 202})
_TRIES = 3  # of a request that is harmless to repeat
# Options that are not named like the query parameter or the body's field.
_QUERY_OPTIONS = {"end_reason": "reason", "gce_id": "id", "group_by": "by"}
_BODY_OPTIONS = {
    "preset": "PRESET",
    "command": "COMMAND",
    "kind": "--dev",
    "checkpoint": "--checkpoint",
    "checkpoint.location": "--checkpoint",
    "environment": "--env",
    "secrets": "--secret",
    "mounts": "--mount",
    "expected_hours": "--hours",
    "overrides.image": "--boot-image",
    "overrides.zones": "--zone",
    "overrides.disk_gib": "--disk",
    "overrides.max_run_hours": "--max-run",
    "overrides.on_demand_fallback": "--fallback",
    "by": "--owner",
    "permissions": "--permission",
}
_NO_OPTION = {"", "budget", "guard_url"}  # fields that no option sets
# For the advice of a 404: the command that lists what its REST path lists.
_LISTED_BY = {
    "jobs": "costguard jobs --all",
    "instances": "costguard ps --all",
    "tokens": "costguard token list",
    "sessions": "costguard session list",
}
_LISTING = re.compile(r"GET /api/v1/(\w+)(?:\?\S*)? lists")
_ATTEMPTS = re.compile(r"GET /api/v1/jobs/(\w+)/attempts")
_SET_TOKEN = (
    "Set COSTGUARD_TOKEN to a token of this server. Where it runs, `costguard token create NAME --save` makes one."  # noqa: S105
)

Value = str | int | bool | Sequence[str] | None  # of a query parameter


class WrongUsage(CostguardError):
    """The server rejects the value of an option."""


class _AnswerLost(ServerUnreachable):
    """The request was sent, and may have been carried out."""

    def __init__(self, error: ServerUnreachable) -> None:
        super().__init__(error.message, error.what_next)


class ApiClient:
    """A server by its address. Its token comes from the environment or the profile: others can read arguments.

    Redirects are not followed: the token is for the named server alone.
    """

    def __init__(
        self,
        url: str,
        environ: Mapping[str, str] = os.environ,
        pause: Callable[[float], object] = threading.Event().wait,
        timeout: float = _TIMEOUT_S,
    ) -> None:
        self._pause, self._timeout = pause, timeout
        self.url, self._token = profile.address_and_token(url, environ, THIS_COMPUTER)
        try:
            parts = urlsplit(self.url)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError:
            self._host = ""
        if not self._host or parts.scheme not in {"http", "https"}:
            raise CostguardError(f"{self.url!r} is not an address of a server.", f"Give one like {THIS_COMPUTER}.")
        self._connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._base = parts.path

    def get(self, *path: str, **parameters: Value) -> dict[str, Any]:
        """The answer to GET /api/v1/PATH."""
        return self._json("GET", path, parameters)

    def get_csv(self, *path: str, **parameters: Value) -> str:
        return self._request("GET", path, parameters, {"Accept": "text/csv"}).decode()

    def post(self, *path: str, body: Mapping[str, Any], key: str = "") -> dict[str, Any]:
        """The answer to POST /api/v1/PATH. With a `key` it is repeated where the answer is lost, and done once."""
        headers = {"Content-Type": "application/json", "Costguard-Client": "cli"}
        headers |= {"Idempotency-Key": key} if key else {}
        for number in range(1, _TRIES if key else 1):
            try:
                return self._json("POST", path, {}, headers, json.dumps(body).encode())
            except _AnswerLost:
                self._pause(number)
        return self._json("POST", path, {}, headers, json.dumps(body).encode())

    def delete(self, *path: str, **parameters: Value) -> dict[str, Any]:
        """The answer to DELETE /api/v1/PATH."""
        return self._json("DELETE", path, parameters)

    def pages(self, path: str, items: str, limit: int, **parameters: Value) -> dict[str, Any]:
        """The last page with up to `limit` items from as many pages as needed; 0: all items."""
        rows: list[Any] = []
        page: dict[str, Any] = {}
        while not page or (page["next_cursor"] is not None and not 0 < limit <= len(rows)):
            size = min(1000, limit - len(rows)) if limit else 1000
            page = self.get(path, **parameters, limit=size, cursor=page.get("next_cursor"))
            rows += page[items]
        return {**page, items: rows}

    def _json(
        self,
        method: str,
        path: Sequence[str],
        parameters: Mapping[str, Value],
        headers: Mapping[str, str] = {},
        body: bytes | None = None,
    ) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            self._request(method, path, parameters, {"Accept": "application/json", **headers}, body)
        )
        return answer

    def _request(
        self,
        method: str,
        path: Sequence[str],
        parameters: Mapping[str, Value],
        headers: Mapping[str, str],
        body: bytes | None = None,
    ) -> bytes:
        query = urlencode([pair for name, value in parameters.items() for pair in _pairs(name, value)])
        target = f"{self._base}/api/v1/{'/'.join(quote(part, safe='') for part in path)}{'?' if query else ''}{query}"
        token = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        connection = self._connect(self._host, self._port, timeout=self._timeout)
        try:
            connection.connect()
        except (HTTPException, OSError) as error:
            connection.close()
            raise self._unreachable(error) from None
        try:
            connection.request(method, target, body, {**headers, **token})
            answer = connection.getresponse()
            got = answer.read()
        except (HTTPException, OSError) as error:
            raise _AnswerLost(self._unreachable(error)) from None
        finally:
            connection.close()
        if answer.status not in _GOOD:
            raise _refusal(self.url, answer.status, answer.reason, got)
        return got

    def _unreachable(self, error: Exception) -> ServerUnreachable:
        return ServerUnreachable(
            f"No Costguard server answers at {self.url}: {error}.",
            "Start one with `costguard serve`, or name another with --url or COSTGUARD_URL.",
        )


def _pairs(name: str, value: Value) -> list[tuple[str, str]]:
    if value is None:
        return []
    if isinstance(value, bool):
        return [(name, "true" if value else "false")]
    if isinstance(value, str | int):
        return [(name, str(value))]
    return [(name, item) for item in value]


def _refusal(url: str, status: int, reason: str, body: bytes) -> CostguardError:
    """The error in a problem document; another answer does not come from a Costguard server."""
    try:
        problem = json.loads(body)
        if status == 422:
            wrong = [f"{_option(error['where'])}{error['message']}" for error in problem["errors"]]
            if not wrong:
                return WrongUsage(str(problem["detail"]), str(problem["next"]))
            return WrongUsage("\n".join(wrong), "Add --help to see what each option takes.")
        if status == 401:
            return CostguardError(str(problem["detail"]), _SET_TOKEN)
        return CostguardError(str(problem["detail"]), _as_command(str(problem["next"])))
    except (ValueError, KeyError, TypeError):
        return ServerUnreachable(
            f"{url} answered {status} {reason}, not as a Costguard server does.",
            "Check the address given with --url or COSTGUARD_URL.",
        )


def _as_command(what_next: str) -> str:
    """The advice of a problem with commands in place of REST paths: `costguard jobs --all` instead of a GET."""

    def named(listing: re.Match[str]) -> str:
        command = _LISTED_BY.get(listing[1])
        return f"`{command}` lists" if command else listing[0]

    return _ATTEMPTS.sub(r"`costguard job \1`", _LISTING.sub(named, what_next))


def _option(where: str) -> str:
    """`--id: ` for `query.gce_id`; the items of a list, such as `query.status.0`, are one option."""
    place, _, name = where.partition(".")
    first, _, rest = name.partition(".")
    if place != "body":
        parameter = first or place
        return f"--{_QUERY_OPTIONS.get(parameter, parameter)}: "
    field = f"{first}.{rest.partition('.')[0]}" if rest and first in {"checkpoint", "overrides"} else first
    if field in _NO_OPTION:
        return ""
    return f"{_BODY_OPTIONS.get(field) or '--' + field.rpartition('.')[2].replace('_', '-')}: "
