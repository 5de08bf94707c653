"""Reads lists that come in pages; of an aggregated one, also which scopes were unreachable."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson

from costguard.errors import BadAnswer
from costguard.gce.errors import COMPUTE, Service
from costguard.gce.fields import short
from costguard.gce.session import Deadline, Http, Loads, Params

_PAGE_SIZE = "500"
_MOST_PAGES = 200
_MOST_PAGES_OF_ALL_SCOPES = 2000


def walk(
    ask: Callable[[str], dict[str, Any]], failure: Callable[[str], Exception], most: int = _MOST_PAGES
) -> Iterator[dict[str, Any]]:
    """Yields the pages that `ask` gives for "", and then for each page's token, in order.

    Raises what `failure` makes of a clause, where the tokens lead nowhere or are no tokens.
    """
    token = ""
    for _ in range(most):
        page = ask(token)
        yield page
        if not (after := page.get("nextPageToken")):
            return
        if not isinstance(after, str) or after == token:
            raise failure("the list does not go on after a page")
        token = after
    raise failure(f"the list has no end; it was left after {most} pages")


def pages_of(
    http: Http,
    path: str,
    params: Params,
    *,
    project: str,
    what: str,
    deadline: Deadline,
    service: Service = COMPUTE,
) -> Iterator[dict[str, Any]]:
    """Gets the pages of one list of a project. Raises CloudError; the pages before it were right."""

    def ask(token: str) -> dict[str, Any]:
        with_token = {**params, "pageToken": token} if token else params
        return http.get_json(path, with_token, project=project, what=what, deadline=deadline, service=service)

    yield from walk(ask, lambda clause: BadAnswer(f"{what} of project {project}: {clause}."))


@dataclass(frozen=True, slots=True)
class Page:
    """A page: the members of each scope, and why some could not be read.

    Scopes are written `zones/us-central1-a`, `regions/us-central1` or `global`; `""` stands for all of them.
    """

    holdings: list[tuple[str, list[Any]]] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AggregatedList:
    """A list with its kind, and the requested fields of its members.

    The kind is requested and checked: else a proxy's `{}` would read as "every VM is gone".
    """

    collection: str
    kind: str
    fields: str
    order_by: str = ""

    def pages(self, http: Http, project: str, deadline: Deadline, loads: Loads = orjson.loads) -> Iterator[Page]:
        """Every page, in order. Raises CloudError where one cannot be read; those before it were right.

        `loads` may make of a body what stands for it: the kind, the token, and no items.
        """
        what = f"Listing {self.collection}"
        params = {
            "maxResults": _PAGE_SIZE,
            "returnPartialSuccess": "true",
            "prettyPrint": "false",
            "fields": f"kind,nextPageToken,unreachables,warning/code,items/*/warning/code,"
            f"items/*/{self.collection}({self.fields})",
        }
        if self.order_by:
            params["orderBy"] = self.order_by
        path = f"/compute/v1/projects/{quote(project, safe=':')}/aggregated/{self.collection}"

        def ask(token: str) -> dict[str, Any]:
            with_token = {**params, "pageToken": token} if token else params
            return http.get_json(path, with_token, project=project, what=what, deadline=deadline, loads=loads)

        def failure(clause: str) -> BadAnswer:
            return BadAnswer(f"{what} of project {project}: {clause}.")

        for answer in walk(ask, failure, _MOST_PAGES_OF_ALL_SCOPES):
            if answer.get("kind") != self.kind:
                said = short(answer.get("kind"))
                raise BadAnswer(f"{what} of project {project}: the answer calls itself {said}, not {self.kind}.")
            yield self._page(answer)

    def _page(self, answer: Mapping[str, Any]) -> Page:
        page = Page()
        for place in list_of(answer.get("unreachables")):
            page.unread[_scope(place)] = "it did not answer"
        if (code := _warning(answer)) and not page.unread:
            page.unread[""] = code
        for scope, content in _as_object(answer.get("items")).items():
            if not isinstance(content, dict):
                page.unread[scope] = f"its part of the list is {type(content).__name__}, not an object"
                continue
            if code := _warning(content):
                page.unread.setdefault(scope, code)
            members = content.get(self.collection)
            if isinstance(members, list):
                if members:
                    page.holdings.append((scope, members))
            elif members is not None:
                page.unread[scope] = f"its {self.collection} are {type(members).__name__}, not a list"
        return page


# A key of JSON: inside of a text its quotes would be escaped.
_TOKEN = re.compile(rb'"nextPageToken": ?("(?:[^"\\]|\\.)*")')


def digest_of(body: bytes) -> tuple[int, str]:
    """Returns the hash of a page's bytes without its token, which differs from look to look, and the token.

    The hash is good within this process.
    """
    if match := _TOKEN.search(body, max(0, body.rfind(b'"nextPageToken"'))):
        return hash(body[: match.start()] + body[match.end() :]), orjson.loads(match[1])
    return hash(body), ""


def zone_of(scope: str) -> str | None:
    """The zone of `zones/us-central1-a`; None for a region, `global` and everything else."""
    return scope[6:] if scope.startswith("zones/") and scope != "zones/" else None


def list_of(value: Any) -> list[Any]:
    """A list that may be missing. Raises BadAnswer for anything else."""
    if value is None or isinstance(value, list):
        return value or []
    raise BadAnswer(f"A page of a list holds {type(value).__name__} where a list belongs.")


def _as_object(value: Any) -> dict[str, Any]:
    if value is None or isinstance(value, dict):
        return value or {}
    raise BadAnswer(f"A page of a list holds {type(value).__name__} where an object of scopes belongs.")


def _warning(holder: Mapping[str, Any]) -> str:
    warning = holder.get("warning")
    code = warning.get("code") if isinstance(warning, dict) else None
    return "" if code in (None, "NO_RESULTS_ON_PAGE") else code if isinstance(code, str) else short(code)


def _scope(place: Any) -> str:
    """`zones/z` of an unreachable place, however much of a URL stands around it."""
    if not isinstance(place, str):
        return short(place)
    parts = place.split("/")
    for word in ("zones", "regions"):
        if word in parts[:-1]:
            return f"{word}/{parts[parts.index(word) + 1]}"
    return place
