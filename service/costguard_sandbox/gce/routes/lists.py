"""What all lists share: filter, order, pages, and the map of scopes of the aggregated ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from costguard_sandbox.gce.errors import Refused, invalid
from costguard_sandbox.gce.filters import compile_filter
from costguard_sandbox.gce.responses import aggregated, paginate
from costguard_sandbox.gce.routes.call import ApiCall, page_number

Resource = dict[str, Any]


def plain_list(call: ApiCall, kind: str, rows: Sequence[Resource]) -> Resource:
    """A list of one zone, or of something global."""
    page, token = _page(call, _chosen(call, rows))
    link = f"{call.cloud.links}{call.path.removeprefix('/compute/v1')}"
    answer: Resource = {"kind": kind, "id": call.path.removeprefix("/compute/v1/"), "items": page}
    if token:
        answer["nextPageToken"] = token
    answer["selfLink"] = link
    return answer


def aggregated_list(
    call: ApiCall,
    kind: str,
    key: str,
    rows: Sequence[Resource],
    scopes: Sequence[str],
    scope_of: Callable[[Resource], str],
) -> Resource:
    """All scopes on every page. What lies in an unreachable zone is not shown, and the zone is named."""
    lost = sorted(f"zones/{zone}" for zone in call.cloud.faults.unreachable_zones(call.project))
    if lost:
        rows = [row for row in rows if scope_of(row) not in lost]
    page, token = _page(call, _chosen(call, rows))
    by_scope: dict[str, list[Resource]] = {}
    for row in page:
        by_scope.setdefault(scope_of(row), []).append(row)
    link = f"{call.cloud.links}{call.path.removeprefix('/compute/v1')}"
    return aggregated(kind, key, by_scope, scopes, link, token, lost)


def zone_scope(row: Mapping[str, Any]) -> str:
    return f"zones/{row['zone'].rsplit('/', 1)[-1]}"


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
