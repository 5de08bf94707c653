"""What the page of facts shows: the audit log, narrowed by its address, and the same as a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from costguard.events import search
from costguard.events.facts import StoredFact
from costguard.events.search import FactFilters, Found
from costguard.ledger import projects
from costguard.pages import asked
from costguard.pages.asked import LONGEST, BadAddress
from costguard.pages.folding import folded
from costguard.pages.show import link
from costguard.pages.source import Source
from costguard.web import fact_sheet

PAGE = 100
_CHUNK = 1000  # facts of a file that are read at once
_FIELDS = ("kind", "project", "vm", "job", "who", "words")
_LARGEST_ID = 2**62
_INNER = re.compile(r"(?<=[a-z])[A-Z]")
# Ends of kinds that somebody will want to see first.
_BAD = ("Failed", "Refused", "Trouble", "Unread", "Unusual", "Reached", "FromZero", "Torn", "Stalled", "Unpriced")


@dataclass(frozen=True, slots=True)
class FactsAsked:
    """ "" asks for nothing; the days are whole, and of UTC. `vm` is a numeric id."""

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
    def filters(self) -> FactFilters:
        return FactFilters(
            since=None if self.since is None else _midnight(self.since),
            until=None if self.until is None else _midnight(self.until + timedelta(days=1)),
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

    def address(self, path: str = "/facts", **changed: str | int | None) -> str:
        """This page's address with other filters, from its first row on."""
        return link(path, **{**{name: value or None for name, value in self._given}, **changed})

    @property
    def _given(self) -> list[tuple[str, str]]:
        days = (("since", self.since), ("until", self.until))
        return [
            *((name, getattr(self, name)) for name in _FIELDS),
            *((name, day.isoformat() if day is not None else "") for name, day in days),
        ]


@dataclass(frozen=True, slots=True)
class Line:
    """`job` is "" where it is about none; `data` is what a program would read, or "" where there is nothing."""

    stored: StoredFact
    kind: str  # in words
    is_bad: bool
    job: str
    data: str
    steps: Sequence[StoredFact] = ()  # that led to it, the latest first

    @property
    def id(self) -> int:
        return self.stored.id


@dataclass(frozen=True, slots=True)
class Facts:
    lines: Sequence[Line]
    next_address: str
    looked_to: datetime | None
    kinds: Mapping[str, str]  # with their words
    projects: Sequence[str]
    files: Mapping[str, str] = field(default_factory=dict)  # what they are, and where


def facts_asked(query: Mapping[str, str]) -> FactsAsked:
    """Raises BadAddress. Parameters that are not known are left alone."""
    text = {name: value.strip() for name, value in query.items() if value.strip()}
    for name, value in text.items():
        if len(value) > LONGEST or "\x00" in value:
            raise BadAddress(f"The address's {name} is nothing that a fact can have.", "Start again from /facts.")
    since, until = (_day(text, name) for name in ("since", "until"))
    if since is not None and until is not None and since > until:
        raise BadAddress(f"{since} is after {until}, so nothing can lie between them.", "Choose the earlier one first.")
    given = {name: text.get(name, "") for name in _FIELDS}
    return FactsAsked(**given, since=since, until=until, before=_cursor(text.get("before", "")))


def facts_page(source: Source, asked: FactsAsked) -> Facts:
    with source.database.read() as connection:
        found = search.search(connection, asked.filters, asked.before, PAGE)
        kinds = search.kinds(connection)
        watched = [look.project for look in projects.read_all(connection)]
    return Facts(
        lines=[_line(each.stored, each.steps) for each in folded(found.facts)],
        next_address=asked.address(before=found.next_id) if found.next_id is not None else "",
        looked_to=found.looked_to,
        kinds={kind: _words(kind) for kind in sorted({*kinds, *filter(None, [asked.kind])})},
        projects=watched,
        files={name: asked.address(f"/facts.{name.lower()}") for name in ("CSV", "JSON")},
    )


def csv_text(source: Source, asked: FactsAsked) -> Iterator[str]:
    """All that is asked for, the newest first, piece by piece; formulas are made harmless."""
    yield fact_sheet.head()
    for found in _all(source, asked):
        yield fact_sheet.lines(found.facts)


def json_text(source: Source, asked: FactsAsked) -> Iterator[str]:
    """The same as one list of objects, piece by piece."""
    before = "["
    for found in _all(source, asked):
        for each in found.facts:
            yield f"{before}\n{json.dumps(_object(each), ensure_ascii=False)}"
            before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def _all(source: Source, asked: FactsAsked) -> Iterator[Found]:
    """Facts are only ever added, so that the pieces join without a transaction that lasts as long as the download."""
    before = asked.before
    while True:
        with source.database.read() as connection:
            found = search.search(connection, asked.filters, before, _CHUNK)
        yield found
        if found.next_id is None:
            return
        before = found.next_id


def _object(stored: StoredFact) -> dict[str, Any]:
    return {**dict(zip(fact_sheet.HEAD, fact_sheet.cells(stored), strict=True)), "data": stored.fact.data}


def _line(stored: StoredFact, steps: Sequence[StoredFact]) -> Line:
    data = stored.fact.data
    kind = stored.fact.kind
    shown = json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True) if data else ""
    return Line(stored, _words(kind), kind.endswith(_BAD), _job(stored), shown, steps)


def _job(stored: StoredFact) -> str:
    job = stored.fact.data.get("job", "")
    return job if isinstance(job, str) else ""


def _words(kind: str) -> str:
    """`LifetimeStarted` as `Lifetime started`."""
    return _INNER.sub(lambda match: f" {match[0].lower()}", kind)


def _day(text: Mapping[str, str], name: str) -> date | None:
    return asked.day(text, name, date.min) if name in text else None


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _cursor(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= _LARGEST_ID):
        raise BadAddress("The address names no page of the facts.", "Start again from /facts.")
    return int(text)
