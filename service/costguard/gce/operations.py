"""Operations on instances: reading, filtering and converting them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from sys import intern
from typing import Any, NamedTuple

import orjson

from costguard.errors import CloudError
from costguard.gce.errors import first_of
from costguard.gce.fields import UNREADABLE, Garbled, moment, moment_or_none, said, short, word
from costguard.gce.pages import AggregatedList, Page, digest_of, zone_of
from costguard.gce.session import Deadline, Http
from costguard.model.observation import OperationStatus, SeenOperation, Unread

_INSTANCE_LINK = re.compile(r"zones/([^/]+)/instances/([^/]+)$")


def operation_from(project: str, raw: Mapping[str, Any]) -> SeenOperation | None:
    """Reads an operation; None when its target is not an instance. Raises Garbled."""
    try:
        target = _INSTANCE_LINK.search(raw.get("targetLink") or "")
        if target is None:
            return None
        errors: list[dict[str, str]] = (raw.get("error") or {}).get("errors") or [{}]
        return SeenOperation(
            project=project,
            operation_id=word(str(raw.get("id") or raw["name"])),
            kind=word(raw["operationType"]),
            target_id=word(str(target_id)) if (target_id := raw.get("targetId")) else "",
            target_name=target[2],
            zone=intern(target[1]),
            user=said(raw.get("user")) or "",
            status=OperationStatus[word(raw["status"])],
            inserted_at=moment(raw["insertTime"]),
            started_at=_began_at(raw),
            ended_at=moment_or_none(raw.get("endTime")),
            error_code=said(errors[0].get("code")) or said(raw.get("httpErrorStatusCode")),
            error_message=said(errors[0].get("message")) or said(raw.get("httpErrorMessage")),
            status_message=said(raw.get("statusMessage")),
            name=word(name) if (name := raw.get("name")) else "",
        )
    except Garbled as error:
        raise Garbled(f"operation {short(raw.get('name'))}: {error}") from None
    except UNREADABLE as error:
        name = raw.get("name") if isinstance(raw, dict) else raw
        raise Garbled(f"operation {short(name)}: {error!r}") from None


def _began_at(raw: Mapping[str, Any]) -> datetime | None:
    """Returns the start of an operation; of a system event the millisecond in its name: the moment itself.

    In four recorded ones it is the start to the millisecond; in one public listing the stamps are 10.3 s later.
    """
    started_at = moment_or_none(raw.get("startTime"))
    named = _SYSTEM_EVENT.match(str(raw.get("name") or ""))
    if named is None:
        return started_at
    happened_at = _EPOCH + timedelta(milliseconds=int(named[1]))
    written_at = started_at or moment(raw["insertTime"])
    return happened_at if timedelta() <= written_at - happened_at <= _LATEST_STAMP else started_at


_SYSTEM_EVENT = re.compile(r"systemevent-(\d{13})-")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_STAMP = timedelta(minutes=2)  # entries of the audit log came up to 101 s after the moment


# No filter is sent. Google documents none on times, and one that it read otherwise than we mean it would
# hide operations for ever; the order is documented, and is believed only once it has been seen to hold.
OPERATIONS = AggregatedList(
    "operations",
    "compute#operationAggregatedList",
    "id,name,operationType,targetId,targetLink,user,status,insertTime,startTime,endTime,"
    "error/errors(code,message),httpErrorStatusCode,httpErrorMessage,statusMessage",
    order_by="creationTimestamp desc",
)
_OVERLAP = timedelta(minutes=10)
# A graceful stop may take an hour, and is done long after it was asked for.
_LONGEST = timedelta(hours=2)


class SettledPage(NamedTuple):
    """Holds what a look needs of a page whose operations are all done: its kind, zones and times.

    Every operation about an instance began and ended by `done_by`; None: the page has none.
    """

    kind: str
    scopes: tuple[str, ...]
    times: tuple[datetime, ...]  # the newest and the oldest, or none
    done_by: datetime | None


@dataclass(slots=True)
class OperationListing:
    operations: dict[str, SeenOperation] = field(default_factory=dict)
    unread: Unread | None = None
    order_holds: bool = False  # newest first over all zones was seen, so the next look may stop early
    settled: dict[int, SettledPage] = field(default_factory=dict)  # by the hash of their bytes, for the next look


class _SettledPages:
    """Recognizes pages of the last look, of which nothing can be news any more: they are not parsed."""

    def __init__(self, last: Mapping[int, SettledPage], since: datetime | None) -> None:
        self._last, self._since = last, since
        self.digest = 0  # of the page that was read last
        self.same: SettledPage | None = None  # that page, where it is one of them

    def loads(self, body: bytes) -> Any:
        self.digest, token = digest_of(body)
        page = self.same = self._last.get(self.digest)
        if page is None or self._since is None or not (page.done_by is None or page.done_by <= self._since - _OVERLAP):
            self.same = None
            return orjson.loads(body)
        return {"kind": page.kind, "nextPageToken": token}


class _PageOrder:
    """Finds out whether pages come newest first over all zones, not zone after zone.

    Two zones that share two pages are mingled: a list that goes zone by zone cannot do that.
    """

    def __init__(self) -> None:
        self.broken = False
        self.oldest: datetime | None = None
        self._pairs: set[tuple[str, str]] = set()
        self.mingled = False

    def take(self, scopes: Collection[str], times: Collection[datetime]) -> None:
        if not times:
            return
        if self.oldest is not None and max(times) > self.oldest:
            self.broken = True
        self.oldest = min(times)
        names = sorted(set(scopes))
        pairs = {(one, other) for i, one in enumerate(names) for other in names[i + 1 :]}
        self.mingled = self.mingled or bool(pairs & self._pairs)
        self._pairs |= pairs


def list_operations(
    http: Http,
    project: str,
    deadline: Deadline,
    since: datetime | None,
    *,
    order_holds: bool,
    settled: Mapping[int, SettledPage],
) -> OperationListing:
    """Operations that began, ended or still run after `since` (with an overlap); None wants all that are kept.

    With `order_holds` pages older than any that could matter are not asked for. Those of the last look that are
    `settled`, and are the same bytes, are not parsed. Never raises a CloudError.
    """
    listing, order, problems = OperationListing(), _PageOrder(), []
    pages = _SettledPages(settled, since)
    try:
        for page in OPERATIONS.pages(http, project, deadline, pages.loads):
            if pages.same is not None:
                listing.settled[pages.digest] = pages.same
                order.take(pages.same.scopes, pages.same.times)
            else:
                problems += _take(page, project, since, listing, order, pages.digest)
            if (
                order_holds
                and not order.broken
                and since is not None
                and order.oldest is not None
                and order.oldest < since - _LONGEST
            ):
                listing.order_holds = True
                break
        else:
            listing.order_holds = order.mingled and not order.broken
    except CloudError as error:
        listing.unread = Unread("operations", str(error), error.code)
        return listing
    if problems:
        code, said = problems[0][0], first_of([message for _, message in problems])
        listing.unread = Unread(
            "operations",
            f"The operations of project {project} could not all be read ({said})."
            " Who did what there is not known until they can.",
            code,
        )
    return listing


def _take(
    page: Page, project: str, since: datetime | None, listing: OperationListing, order: _PageOrder, digest: int
) -> list[tuple[str, str]]:
    # Operations of regions and of the whole project are never about an instance.
    problems = [
        ("unreachable", f"{scope or 'the list'}: {why}")
        for scope, why in page.unread.items()
        if scope == "" or zone_of(scope) is not None
    ]
    scopes, times, done_by = [], [], None
    is_settled = not page.unread
    for scope, members in page.holdings:
        for raw in members:
            try:
                times.append(moment(raw["insertTime"]))
                scopes.append(scope)
                operation = operation_from(project, raw) if _is_about_instance(raw) else None
            except UNREADABLE as error:
                problems.append(("bad_answer", f"{scope}: {error}"))
                continue
            if operation is None:
                continue
            done_by = max(filter(None, (done_by, operation.inserted_at, operation.ended_at)))
            is_settled = is_settled and operation.status is OperationStatus.DONE
            if since is None or _may_be_news(operation, since - _OVERLAP):
                listing.operations[operation.operation_id] = operation
    order.take(scopes, times)
    if is_settled and not problems:
        ends = (max(times), min(times)) if times else ()
        listing.settled[digest] = SettledPage(OPERATIONS.kind, tuple(sorted(set(scopes))), ends, done_by)
    return problems


def _is_about_instance(raw: Any) -> bool:
    return "/instances/" in (raw.get("targetLink") or "")


def _may_be_news(operation: SeenOperation, since: datetime) -> bool:
    return (
        operation.status is not OperationStatus.DONE
        or operation.inserted_at > since
        or (operation.ended_at is not None and operation.ended_at > since)
    )
