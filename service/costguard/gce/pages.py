"""Reads the pages of an aggregated list, and reports the scopes that were unreachable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from costguard.errors import BadAnswer
from costguard.gce.session import Deadline, Http

_PAGE_SIZE = "500"
_MOST_PAGES = 2000


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

    def pages(self, http: Http, project: str, deadline: Deadline) -> Iterator[Page]:
        """Every page, in order. Raises CloudError where one cannot be read; those before it were right."""
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
        for _ in range(_MOST_PAGES):
            answer = http.get_json(
                f"/compute/v1/projects/{quote(project, safe=':')}/aggregated/{self.collection}",
                params,
                project=project,
                what=what,
                deadline=deadline,
            )
            if answer.get("kind") != self.kind:
                raise BadAnswer(
                    f"{what} of project {project}: the answer calls itself {answer.get('kind')!r}, not {self.kind}.",
                )
            yield self._page(answer)
            token = answer.get("nextPageToken")
            if not token:
                return
            if not isinstance(token, str) or token == params.get("pageToken"):
                raise BadAnswer(f"{what} of project {project}: the list does not go on after a page.")
            params["pageToken"] = token
        raise BadAnswer(f"{what} of project {project}: the list has no end; it was left after {_MOST_PAGES} pages.")

    def _page(self, answer: Mapping[str, Any]) -> Page:
        page = Page()
        for place in _as_list(answer.get("unreachables")):
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


def zone_of(scope: str) -> str | None:
    """The zone of `zones/us-central1-a`; None for a region, `global` and everything else."""
    return scope[6:] if scope.startswith("zones/") and scope != "zones/" else None


def _as_list(value: Any) -> list[Any]:
    if value is None or isinstance(value, list):
        return value or []
    raise BadAnswer(f"A page of a list holds {type(value).__name__} where a list of places belongs.")


def _as_object(value: Any) -> dict[str, Any]:
    if value is None or isinstance(value, dict):
        return value or {}
    raise BadAnswer(f"A page of a list holds {type(value).__name__} where an object of scopes belongs.")


def _warning(holder: Mapping[str, Any]) -> str:
    warning = holder.get("warning")
    code = warning.get("code") if isinstance(warning, dict) else None
    return "" if code in (None, "NO_RESULTS_ON_PAGE") else str(code)


def _scope(place: Any) -> str:
    """`zones/z` of an unreachable place, however much of a URL stands around it."""
    parts = str(place).split("/")
    for word in ("zones", "regions"):
        if word in parts[:-1]:
            return f"{word}/{parts[parts.index(word) + 1]}"
    return str(place)
