"""The page Fleet: every VM and other resource with its money, why each is left alone, and what is unknown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.bill import report
from costguard.bill.report import Accuracy
from costguard.daemon import feed_state
from costguard.daemon.listings import EventStreams
from costguard.daemon.unread_groups import UnreadGroup, unread_groups
from costguard.events import audit_log
from costguard.ledger import fleet_rows, projects
from costguard.ledger.accrual import accrual_at
from costguard.ledger.fleet_rows import Burning, Filters
from costguard.ledger.projects import ProjectLook
from costguard.messages.slack_health import slack_health
from costguard.model.access import Principal
from costguard.model.budget import Scope
from costguard.model.instance import Status
from costguard.model.keeper import KeeperKind
from costguard.model.mending import command_for
from costguard.model.money import Money
from costguard.pages import query
from costguard.pages.charts import Trace, trace
from costguard.pages.folding import Folded, folded
from costguard.pages.page import Given, Source, page_router
from costguard.pages.query import UNOWNED, BadAddress
from costguard.pages.rows import Row, rows_of, with_offers
from costguard.pages.show import link
from costguard.spend import fleet, spend
from costguard.spend import fleet as choices
from costguard.spend.burning import burned
from costguard.spend.fleet import Choices, Cursor, FleetPage, Sort
from costguard.spend.loose.report import LooseReport, prices_of
from costguard.web.memo import memo_of
from costguard.web.permissions import Asker

PAGE_SIZE = 50
_EVENTS = 12
_LARGEST = 2**62
_LATEST = 2**53  # microseconds since 1970: the year 2255
_NO_SUCH_PAGE = ("The address does not point to a page of the fleet.", "Start again from the first page.")

router = page_router()


@dataclass(frozen=True, slots=True)
class FleetQuery:
    """The page's address. None filters by nothing; an owner of "" finds unowned VMs."""

    project: str | None = None
    preset: str | None = None
    owner: str | None = None
    status: str | None = None
    name: str | None = None  # a part of it
    keeper: KeeperKind | None = None
    cluster: str | None = None  # or cluster/pool
    sort: Sort = Sort.RATE
    gone: bool = False
    after: Cursor | None = None

    @property
    def filters(self) -> Filters:
        def one(value: str | None) -> tuple[str, ...]:
            return () if value is None else (value,)

        return Filters(
            one(self.project),
            one(self.preset),
            one(self.owner),
            one(self.status),
            name_holds=self.name,
            keepers=one(self.keeper),
            cluster=self.cluster,
        )

    @property
    def is_filtered(self) -> bool:
        given = (self.project, self.preset, self.owner, self.status, self.name, self.keeper, self.cluster)
        return any(value is not None for value in given)

    def address(self, **changed: str | bool | None) -> str:
        """This page with other filters, from its first row on."""
        given: dict[str, str | bool | None] = {
            "project": self.project,
            "preset": self.preset,
            "owner": UNOWNED if self.owner == "" else self.owner,
            "status": self.status,
            "name": self.name,
            "keeper": self.keeper,
            "cluster": self.cluster,
            "sort": None if self.sort is Sort.RATE else self.sort.value,
            "gone": "yes" if self.gone else None,
        }
        return link("/", **{**given, **changed})

    def next_address(self, cursor: Cursor) -> str:
        return self.address(after=f"{int(cursor.gone)}.{cursor.rank}.{cursor.id}.{cursor.name}")


@dataclass(frozen=True, slots=True)
class Share:
    """The hourly cost of a preset's VMs, and its place on a bar of a thousand parts."""

    preset: str
    rate: Money
    running: int
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class UnreadPart:
    """A part of a project that the last read missed."""

    project: str
    scope: str
    reason: str
    last_complete_at: datetime | None
    command: str  # what makes it readable; "" where no one command does
    is_whole: bool  # nothing of the project was read


@dataclass(frozen=True, slots=True)
class FleetOverview:
    page: FleetPage
    rows: Sequence[Row]
    shares: Sequence[Share]
    trace: Trace | None  # of the last day; None also where the filters cannot be applied to the past
    month: Money
    month_unpriced: int
    gaps: Sequence[UnreadPart]
    alike: Sequence[UnreadGroup]  # the same, by the reason
    stale: Sequence[ProjectLook]
    looks: Sequence[ProjectLook]
    price_note: str | None  # how old prices are that came with Costguard
    accuracy: Accuracy | None  # against Google's bill; None before its first closed day
    choices: Choices
    events: Sequence[Folded]
    are_all_vms: bool = True  # none of those that pass the filters is a TPU node or a resource of Vertex AI
    reserved: LooseReport | None = None  # unused reservations; None: not read yet, or filtered by more than a project


@router.get("/")
@router.get("/fleet")
def show_fleet(request: Request, pages: Given, me: Asker) -> HTMLResponse:
    wanted, source = fleet_query(request.query_params), pages.source

    def gather() -> dict[str, Any]:
        now = source.clock.now()
        slack = slack_health(source.outbox_trouble(), source.socket_trouble(), now, source.stale_after)
        return {"as_of": now, "fleet": overview(source, wanted, now), "daemon": source.status(), "slack": slack}

    values = memo_of(request).once(("fleet", wanted), gather)
    rows = with_offers(values["fleet"].rows, source.rules, me, values["as_of"])
    reserved = _reserved(source, wanted)
    shown = None if reserved is None else (reserved.unused_vms, reserved.unused_burn, reserved.reservations_read)
    return pages.renderer.shared_page(
        request,
        "fleet.html",
        depends_on=(wanted, tuple(row.offers for row in rows), shown),
        query=wanted,
        keepers=list(KeeperKind),
        **{**values, "fleet": replace(values["fleet"], rows=rows, reserved=reserved)},
    )


def _reserved(source: Source, wanted: FleetQuery) -> LooseReport | None:
    """Reports reservations that nobody uses, which are of projects and nothing else that the page filters by."""
    if source.loose is None or replace(wanted, project=None).is_filtered:
        return None
    return source.loose.unused(prices_of(source.database), wanted.project)


def fleet_query(address: Mapping[str, str]) -> FleetQuery:
    """Raises BadAddress. Parameters that are not known are left alone."""
    text = query.texts(address, "/")
    sort = text.get("sort", Sort.RATE.value)
    if sort not in list(Sort):
        raise BadAddress(f"The fleet cannot be sorted by {sort[:40]}.", f"Choose one of {', '.join(Sort)}.")
    keeper = text.get("keeper")
    if keeper is not None and keeper not in list(KeeperKind):
        raise BadAddress(f"Nothing that keeps VMs is called {keeper[:40]}.", f"Choose one of {', '.join(KeeperKind)}.")
    return FleetQuery(
        project=text.get("project"),
        preset=text.get("preset"),
        owner="" if text.get("owner") == UNOWNED else text.get("owner"),
        status=text.get("status"),
        name=text.get("name"),
        keeper=KeeperKind(keeper) if keeper is not None else None,
        cluster=text.get("cluster"),
        sort=Sort(sort),
        gone="gone" in text,
        after=_cursor(text["after"]) if "after" in text else None,
    )


def _cursor(text: str) -> Cursor:
    gone, _, rest = text.partition(".")
    rank, _, rest = rest.partition(".")
    row_id, _, name = rest.partition(".")
    try:
        cursor = Cursor(gone == "1", int(rank), name, int(row_id))
    except ValueError as error:
        raise BadAddress(*_NO_SUCH_PAGE) from error
    if abs(cursor.rank) > _LARGEST or abs(cursor.id) > _LARGEST or (cursor.gone and not 0 <= cursor.rank <= _LATEST):
        raise BadAddress(*_NO_SUCH_PAGE)
    return cursor


def overview(source: Source, wanted: FleetQuery, now: datetime, me: Principal | None = None) -> FleetOverview:
    """Everything that the page shows, read in one transaction."""
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        page = fleet.fleet_page(
            connection,
            accrual,
            source.rules.presets,
            wanted.filters,
            sort=wanted.sort,
            with_gone=wanted.gone,
            after=wanted.after,
            size=PAGE_SIZE,
        )
        rows = rows_of(connection, page.rows, source.rules, now, me)
        shares = _shares(page.burning)
        scope = Scope(wanted.project, wanted.preset, wanted.owner)
        has_past = wanted.status is None and wanted.name is None
        history = burned(connection, accrual, scope) if has_past else None
        month = spend.spend(connection, accrual, now.date().replace(day=1), now.date(), [], scope)
        looks = projects.read_all(connection)
        streams = feed_state.streams(connection, source.rhythm)
        accuracy = report.accuracy(connection)
        filter_choices = choices.read(connection)
        events = audit_log.read(connection, project=wanted.project, limit=_EVENTS)
        are_all_vms = fleet_rows.are_all_vms(connection, wanted.filters)
    return FleetOverview(
        page=page,
        rows=rows,
        shares=shares,
        trace=None if history is None else trace(history, page.totals.rate, now),
        month=month.total.total,
        month_unpriced=month.unpriced,
        gaps=_unread_parts(looks),
        alike=unread_groups(looks),
        stale=[look for look in looks if _is_stale(look, now, source.stale_after, streams) and not look.is_unread],
        looks=looks,
        price_note=accrual.price_note,
        accuracy=accuracy,
        choices=filter_choices,
        events=folded(events),
        are_all_vms=are_all_vms,
    )


def _unread_parts(looks: Iterable[ProjectLook]) -> list[UnreadPart]:
    return [
        UnreadPart(
            look.project,
            part.scope,
            part.reason,
            look.last_complete_at,
            command_for(look.project, part),
            is_whole=part.is_whole,
        )
        for look in looks
        for part in look.unread
    ]


def _shares(burning: Sequence[Burning]) -> list[Share]:
    """Returns the shares by preset, the most expensive first. Rounded for drawing alone."""
    rates: dict[str, int] = defaultdict(int)
    running: dict[str, int] = defaultdict(int)
    for group in burning:
        rates[group.preset] += group.rate.nanos
        running[group.preset] += group.count if group.status is Status.RUNNING else 0
    total, done, shares = sum(rates.values()), 0, []
    for preset, nanos in sorted(rates.items(), key=lambda item: (-item[1], item[0])):
        if nanos > 0:
            x, end = 1000 * done // total, 1000 * (done + nanos) // total
            shares.append(Share(preset, Money(nanos), running[preset], x, end - x))
            done += nanos
    return shares


def _is_stale(look: ProjectLook, now: datetime, stale_after: timedelta, streams: EventStreams) -> bool:
    longest = streams.longest_age(look.project, now, stale_after)
    return look.last_complete_at is not None and now - look.last_complete_at > longest
