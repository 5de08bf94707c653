"""The page Audit log: every event, filtered by its address, and the same as a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from fastapi import Request
from starlette.responses import HTMLResponse, StreamingResponse

from costguard.events import csv_events, search
from costguard.events.audit_log import StoredEvent
from costguard.events.search import EventFilters, Found
from costguard.ledger import projects
from costguard.model.instance import InstanceKey, is_id
from costguard.model.moments import day_start
from costguard.pages import query
from costguard.pages.folding import folded
from costguard.pages.page import HEADERS, Given, Source, page_router
from costguard.pages.query import BadAddress
from costguard.pages.show import link

_PAGE_SIZE = 100
_CHUNK = 1000  # events of a file that are read at once
_FIELDS = ("kind", "project", "vm", "job", "who", "words")
_LARGEST_ID = 2**62
_INNER = re.compile(r"(?<=[a-z])[A-Z]")
# Ends of kinds that people want to see first.
_BAD = ("Failed", "Refused", "Trouble", "Unread", "Unusual", "Reached", "FromZero", "Torn", "Stalled", "Unpriced")

router = page_router()


@dataclass(frozen=True, slots=True)
class AuditLogQuery:
    """The page's address. "" filters by nothing; the days are whole days in UTC. `vm` is a numeric id."""

    kind: str = ""
    project: str = ""
    vm: str = ""
    job: str = ""
    who: str = ""
    words: str = ""
    since: date | None = None
    until: date | None = None
    before: int | None = None

    @property
    def filters(self) -> EventFilters:
        return EventFilters(
            since=None if self.since is None else day_start(self.since),
            until=None if self.until is None else day_start(self.until + timedelta(days=1)),
            kind=self.kind,
            gce_id=self.vm,
            project=self.project,
            job=self.job,
            who=self.who,
            words=self.words,
        )

    @property
    def is_filtered(self) -> bool:
        return any(value for _, value in self._given)

    def address(self, path: str = "/events", **changed: str | int | None) -> str:
        """This page with other filters, from its first row on."""
        return link(path, **{**{name: value or None for name, value in self._given}, **changed})

    @property
    def _given(self) -> list[tuple[str, str]]:
        days = (("since", self.since), ("until", self.until))
        return [
            *((name, getattr(self, name)) for name in _FIELDS),
            *((name, day.isoformat() if day is not None else "") for name, day in days),
        ]


@dataclass(frozen=True, slots=True)
class EventLine:
    """`job` is "" where it concerns none; `data` is what a program would read, or "" where there is nothing."""

    stored: StoredEvent
    kind: str  # in words
    is_bad: bool
    job: str
    data: str
    steps: Sequence[StoredEvent] = ()  # that led to it, the latest first

    @property
    def id(self) -> int:
        return self.stored.id


@dataclass(frozen=True, slots=True)
class AuditLogPage:
    lines: Sequence[EventLine]
    next_address: str
    searched_to: datetime | None
    kinds: Mapping[str, str]  # with their words
    projects: Sequence[str]
    files: Mapping[str, str] = field(default_factory=dict)  # their format and address


@router.get("/events")
def show_audit_log(request: Request, pages: Given) -> HTMLResponse:
    wanted = audit_log_query(request.query_params)
    log, kind = _gathered(pages.source, wanted), _kind(wanted.vm)
    return pages.render(request, "audit_log.html", query=wanted, log=log, one_kind=kind)


def _kind(gce_id: str) -> str:
    """Returns the kind's word of what has this id, capitalised: `VM`, `Custom job`; `Resource` where it is no id."""
    word = InstanceKey("", gce_id).kind.in_words if is_id(gce_id) else "resource"
    return word[0].upper() + word[1:]


@router.get("/events.csv", response_class=StreamingResponse)
def events_csv(request: Request, pages: Given) -> StreamingResponse:
    return _file(_csv(pages.source, audit_log_query(request.query_params)), "text/csv", "events.csv")


@router.get("/events.json", response_class=StreamingResponse)
def events_json(request: Request, pages: Given) -> StreamingResponse:
    return _file(_json(pages.source, audit_log_query(request.query_params)), "application/json", "events.json")


def audit_log_query(address: Mapping[str, str]) -> AuditLogQuery:
    """Raises BadAddress. Parameters that are not known are left alone."""
    text = query.texts(address, "/events")
    since, until = (query.day(text, name, date.min) if name in text else None for name in ("since", "until"))
    if since is not None and until is not None and since > until:
        raise BadAddress(f"{since} is after {until}, so no event can be between them.", "Swap the two days.")
    filters = {name: text.get(name, "") for name in _FIELDS}
    return AuditLogQuery(**filters, since=since, until=until, before=_cursor(text.get("before", "")))


def _gathered(source: Source, wanted: AuditLogQuery) -> AuditLogPage:
    with source.database.read() as connection:
        result = search.search(connection, wanted.filters, wanted.before, _PAGE_SIZE)
        kinds = search.kinds(connection)
        watched = [look.project for look in projects.read_all(connection)]
    return AuditLogPage(
        lines=[_line(group.stored, group.steps) for group in folded(result.events)],
        next_address=wanted.address(before=result.next_id) if result.next_id is not None else "",
        searched_to=result.looked_to,
        kinds={kind: _words(kind) for kind in sorted({*kinds, *filter(None, [wanted.kind])})},
        projects=watched,
        files={name: wanted.address(f"/events.{name.lower()}") for name in ("CSV", "JSON")},
    )


def _csv(source: Source, wanted: AuditLogQuery) -> Iterator[str]:
    """All events that pass the filters, the newest first, in pieces; formulas are made harmless."""
    yield csv_events.event_head()
    for page in _all(source, wanted):
        yield csv_events.event_lines(page.events)


def _json(source: Source, wanted: AuditLogQuery) -> Iterator[str]:
    """The same as one list of objects, in pieces."""
    before = "["
    for page in _all(source, wanted):
        for stored in page.events:
            cells = dict(zip(csv_events.EVENT_COLUMNS, csv_events.event_cells(stored), strict=True))
            yield f"{before}\n{json.dumps({**cells, 'data': stored.event.data}, ensure_ascii=False)}"
            before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def _all(source: Source, wanted: AuditLogQuery) -> Iterator[Found]:
    """Events are only ever added, so that the pieces join without a transaction that lasts as long as the download."""
    before = wanted.before
    while True:
        with source.database.read() as connection:
            page = search.search(connection, wanted.filters, before, _CHUNK)
        yield page
        if page.next_id is None:
            return
        before = page.next_id


def _file(text: Iterator[str], kind: str, name: str) -> StreamingResponse:
    headers = {
        **HEADERS,
        "Content-Disposition": f'attachment; filename="costguard-{name}"',
        "Cache-Control": "no-store",
    }
    return StreamingResponse(text, media_type=f"{kind}; charset=utf-8", headers=headers)


def _line(stored: StoredEvent, steps: Sequence[StoredEvent]) -> EventLine:
    data, kind = stored.event.data, stored.event.kind
    job = data.get("job", "")
    shown = json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True) if data else ""
    return EventLine(stored, _words(kind), kind.endswith(_BAD), job if isinstance(job, str) else "", shown, steps)


def _words(kind: str) -> str:
    """`LifetimeStarted` as `Lifetime started`."""
    return _INNER.sub(lambda match: f" {match[0].lower()}", kind)


def _cursor(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= _LARGEST_ID):
        raise BadAddress("The address does not point to a page of the audit log.", "Start again from /events.")
    return int(text)
