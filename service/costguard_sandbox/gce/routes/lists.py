"""Parts that all lists share: filters, order, pages, and the scopes of aggregated lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from costguard_sandbox.gce.catalogue.regions import ZONES
from costguard_sandbox.gce.errors import Refused, invalid, not_found
from costguard_sandbox.gce.filters import compile_filter
from costguard_sandbox.gce.responses import paginate
from costguard_sandbox.gce.routes.call import ApiCall, page_number

Resource = dict[str, Any]


def plain_list(call: ApiCall, kind: str, rows: Sequence[Resource]) -> Resource:
    """A list of one zone or region, or a global one."""
    page, token = _page(call, _chosen(call, rows))
    answer: Resource = {"kind": kind, "id": call.path.removeprefix("/compute/v1/"), "items": page}
    if token:
        answer["nextPageToken"] = token
    answer["selfLink"] = _self_link(call)
    return answer


def _self_link(call: ApiCall) -> str:
    return f"{call.cloud.links}{call.path.removeprefix('/compute/v1')}"


def aggregated_list(
    call: ApiCall,
    kind: str,
    key: str,
    rows: Sequence[Resource],
    scopes: Sequence[str],
    scope_of: Callable[[Resource], str],
) -> Resource:
    """A list by scope. An unreachable zone shows none of its rows."""
    unreachable = sorted(f"zones/{zone}" for zone in call.cloud.faults.unreachable_zones(call.project))
    if unreachable:
        rows = [row for row in rows if scope_of(row) not in unreachable]
    page, token = _page(call, _chosen(call, rows))
    by_scope: dict[str, list[Resource]] = {}
    for row in page:
        by_scope.setdefault(scope_of(row), []).append(row)
    return aggregated(kind, key, by_scope, scopes, _self_link(call), token, unreachable)


def aggregated(
    kind: str,
    key: str,
    by_scope: Mapping[str, list[Resource]],
    scopes: Sequence[str],
    self_link: str,
    next_page_token: str | None,
    unreachable: Sequence[str],
) -> Resource:
    """Every scope, such as `zones/us-central1-a`, on every page: with rows, NO_RESULTS_ON_PAGE or UNREACHABLE."""
    items: Resource = {}
    for scope in scopes:
        if scope in unreachable:
            items[scope] = _warning("UNREACHABLE", f"The scope '{scope}' is unreachable.", scope)
        elif scope in by_scope:
            items[scope] = {key: by_scope[scope]}
        else:
            text = f"There are no results for scope '{scope}' on this page."
            items[scope] = _warning("NO_RESULTS_ON_PAGE", text, scope)
    answer: Resource = {"kind": kind, "id": self_link.partition("/compute/v1/")[2], "items": items}
    if next_page_token:
        answer["nextPageToken"] = next_page_token
    answer["selfLink"] = self_link
    if unreachable:
        answer["unreachables"] = list(unreachable)
    return answer


def _warning(code: str, message: str, scope: str) -> Resource:
    return {"warning": {"code": code, "message": message, "data": [{"key": "scope", "value": scope}]}}


def zone_scope(row: Mapping[str, Any]) -> str:
    return f"zones/{row['zone'].rsplit('/', 1)[-1]}"


def known_zone(call: ApiCall) -> str:
    zone = call.params["zone"]
    if zone not in ZONES:
        raise not_found(f"projects/{call.project}/zones/{zone}")
    return zone


def refuse_unreachable(call: ApiCall, zone: str) -> None:
    if zone in call.cloud.faults.unreachable_zones(call.project):
        raise Refused(503, "backendError", f"The zone 'projects/{call.project}/zones/{zone}' is unreachable.")


def _chosen(call: ApiCall, rows: Sequence[Resource]) -> Sequence[Resource]:
    if call.query.get("filter"):
        keep = compile_filter(call.query["filter"])
        rows = [row for row in rows if keep(row)]
    order = call.query.get("orderBy", "")
    if order == "creationTimestamp desc":
        rows = sorted(rows, key=_created, reverse=True)
    elif order in ("name", "name asc"):
        rows = sorted(rows, key=lambda row: str(row["name"]))
    elif order:
        raise invalid("orderBy", order, "Only 'name' and 'creationTimestamp desc' are supported.")
    return rows


def _created(row: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(row.get("creationTimestamp") or row["insertTime"]).timestamp()


def _page(call: ApiCall, rows: Sequence[Resource]) -> tuple[list[Resource], str | None]:
    size, token = call.max_results(), call.query.get("pageToken")
    call.cloud.faults.refuse_page(call.project, call.path, page_number(token, size))
    return paginate(rows, size, token)
