"""Whether the response of a GET may be shared: decided by its route, so that no personal one is shared by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import RouteContext, iter_route_contexts
from starlette.routing import BaseRoute
from starlette.types import Scope

from costguard.model.access import Permission, Principal
from costguard.web.who import asker


class GetKind(Enum):
    """What a GET of a path is."""

    CHEAP = "cheap"  # waits for nobody
    EXPORT = "export"  # goes on as long as its reader reads
    FORM = "form"  # made for one person, once: what is done with it must not wait for pages
    OWN = "own"  # may differ from person to person
    ALIKE = "alike"  # the same for all with the same permissions, but for what is filled in


_CHEAP = frozenset({"/api/v1", "/api/v1/events/stream", "/api/v1/me", "/problems/{kind}"})
_EXPORTS = frozenset({"/events.csv", "/events.json"})
# Pages that differ only in what their viewer may do: nothing, for who may not act at all.
_OF_ACTORS = frozenset({"/", "/vm/{project}/{gce_id}", "/jobs", "/jobs/{job_id}"})
_ACTS = (Permission.INSTANCES, Permission.JOBS)
_MOST_PATHS = 2_000


class GetKinds:
    """Of the paths of one application; it learns its routes with the first request."""

    def __init__(self) -> None:
        self._routes: list[RouteContext] | None = None
        self._known: dict[str, GetKind] = {}

    def __call__(self, scope: Scope, principal: Principal) -> GetKind:
        path = scope["path"]
        if path.startswith(("/static/", "/sign-in", "/healthz", "/readyz")):
            return GetKind.CHEAP
        kind = self._known.get(path)
        if kind is None:
            if len(self._known) >= _MOST_PATHS:
                self._known.clear()
            kind = self._known[path] = self._of(scope)
        is_actor = any(principal.may(each) for each in _ACTS)
        return GetKind.ALIKE if kind is GetKind.OWN and not is_actor else kind

    def _of(self, scope: Scope) -> GetKind:
        if self._routes is None:
            self._routes = list(_gets(scope["app"].routes))
        route = next((each for each in self._routes if each.path_regex.match(scope["path"])), None)
        if route is None:
            return GetKind.CHEAP  # there is no such path, or nothing to make
        return kind_of(route)


def kind_of(route: RouteContext) -> GetKind:
    path, dependant = route.path or "", getattr(route, "dependant", None)
    if path in _CHEAP:
        return GetKind.CHEAP
    if path in _EXPORTS:
        return GetKind.EXPORT
    if dependant is not None and not _asks_who(dependant):
        return GetKind.ALIKE
    return GetKind.OWN if path in _OF_ACTORS else GetKind.FORM


def _gets(routes: list[BaseRoute]) -> Iterator[RouteContext]:
    return (each for each in iter_route_contexts(routes) if "GET" in (each.methods or ()))


def _asks_who(dependant: Dependant) -> bool:
    call: Any = dependant.call
    return call is asker or any(map(_asks_who, dependant.dependencies))
