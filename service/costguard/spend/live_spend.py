"""What has run up since charges were last stored: of ten thousand VMs in what a few kinds of them take."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Table

from costguard.db.remembered import remembered
from costguard.db.tables import lifetimes, storage_spans
from costguard.ledger import accruing
from costguard.ledger.accrual import Accrual
from costguard.ledger.accruing import AccruingLifetime, AccruingStorage, Alike, Within
from costguard.ledger.meter import Begun, day_of, second_of
from costguard.ledger.pricing import Bill
from costguard.model.budget import Scope
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape
from costguard.model.lifetime import Attribution, Lifetime, StorageSpan
from costguard.model.money import Money
from costguard.model.price import OF_A_RUN
from costguard.spend.spend_rows import Amounts, UnpricedSpan, day_start

_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOOK_BACK = timedelta(days=62)  # as far as most questions go: two months
_NOBODY = ("", "", "", "")
_NO_KEY = InstanceKey("", "")

InstanceKind: TypeAlias = tuple[str, Attribution, str]  # project, whose money it is, provisioning model
_Read: TypeAlias = Callable[[Connection, datetime, datetime, Collection[str], Scope], list[Alike]]
_Sums: TypeAlias = dict[tuple[date, InstanceKind], list[int]]  # machine, GPU and storage in nano-dollars, seconds


@dataclass(frozen=True, slots=True)
class Live:
    figures: list[tuple[date, InstanceKind, Amounts]]
    unpriced: list[UnpricedSpan]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is not stored of the days [first, last] by day, and the spans that could not be priced whole."""

    scope: Scope
    first: date
    last: date
    whose: frozenset[str]
    sums: _Sums
    gaps: Sequence[AccruingLifetime | AccruingStorage]

    def answers(self, scope: Scope, first: date, last: date, whose: Collection[str]) -> bool:
        return self.scope == scope and self.first <= first and last <= self.last and self.whose.issuperset(whose)


def live(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope, by: Collection[str]) -> Live:
    """What is not stored of the UTC days [first, last], up to now, told apart by the columns that `by` names.

    A page asks for several ranges and groupings of one moment. The ledger is read once for as many of them as
    possible: ranges are widened to two months and today, and a reading that tells more apart answers those that need
    less. A day's figure is the same in every range, since charges are cut at midnight.
    """
    today = accrual.now.date()
    if first > today:
        return Live([], [])
    # Telling projects and presets apart costs nothing, and so more answers are the same; all else always is.
    whose = frozenset({"owner", "job"}.intersection(by) | {"project", "preset"})
    readings = _kept.setdefault(accrual, {}).setdefault(connection, [])
    reading = next((each for each in readings if each.answers(scope, first, last, whose)), None)
    if reading is None:
        reading = _read(connection, accrual, min(first, today - _LOOK_BACK), max(last, today), scope, whose)
        readings.append(reading)
    start, end = day_start(first), day_start(last) + _DAY
    gaps = [gap for each in reading.gaps if (gap := _gap(each, accrual, start, end)) is not None]
    return Live(_figures(reading, first, last, whose), gaps)


# What a transaction has written since is not seen, so writers ask before they write.
_kept: WeakKeyDictionary[Accrual, dict[Connection, list[_Reading]]] = WeakKeyDictionary()


def _figures(
    reading: _Reading, first: date, last: date, by: Collection[str]
) -> list[tuple[date, InstanceKind, Amounts]]:
    """Those days, without telling apart what nobody asks for."""
    found: _Sums = reading.sums
    if reading.whose != by:
        found = defaultdict(lambda: [0, 0, 0, 0])
        for (day, (project, whose, model)), figures in reading.sums.items():
            coarse = Attribution(whose.preset, whose.owner if "owner" in by else "", whose.job if "job" in by else "")
            _add(found, day, (project, coarse, model), figures)
    return [
        (day, kind, Amounts(Money(machine), Money(gpu), Money(storage), seconds))
        for (day, kind), (machine, gpu, storage, seconds) in found.items()
        if first <= day <= last
    ]


def _read(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope, whose: frozenset[str]
) -> _Reading:
    start, end = day_start(first), day_start(last) + _DAY
    asked = _Asked(connection, accrual, start, end, min(end, accrual.now), scope, whose)
    sums: _Sums = defaultdict(lambda: [0, 0, 0, 0])
    gaps: list[AccruingLifetime | AccruingStorage] = []
    unlike_runs = _alike_runs(asked, sums)
    unlike_storage = _alike_storage(asked, sums)
    for run in accruing.accruing_lifetimes(connection, asked.one_by_one(unlike_runs)):
        bill = _bill(run, accrual, start, end)
        _add_bill(sums, bill, (run.lifetime.key.project, run.attribution, run.lifetime.provisioning_model))
        gaps += [run] if bill.unpriced else []
    for store in accruing.accruing_storage(connection, asked.one_by_one(unlike_storage)):
        bill = _bill(store, accrual, start, end)
        _add_bill(sums, bill, (store.span.key.project, store.attribution, ProvisioningModel.STANDARD))
        gaps += [store] if bill.unpriced else []
    return _Reading(scope, first, last, whose, sums, gaps)


def _bill(span: AccruingLifetime | AccruingStorage, accrual: Accrual, start: datetime, end: datetime) -> Bill:
    """What is not stored of it within [start, end)."""
    if isinstance(span, AccruingLifetime):
        since = max(span.charged_to or span.lifetime.started_at, start)
        return accrual.of_lifetime(span.lifetime, since, end)
    since = max(span.charged_to or span.span.started_at, start)
    return accrual.of_storage(span.span, since, end)


def _gap(
    span: AccruingLifetime | AccruingStorage, accrual: Accrual, start: datetime, end: datetime
) -> UnpricedSpan | None:
    """None where it did not run, or nothing is missing, in [start, end)."""
    of = span.lifetime if isinstance(span, AccruingLifetime) else span.span
    if max(span.charged_to or of.started_at, start) >= min(end, of.ended_at or accrual.now):
        return None
    reason = _bill(span, accrual, start, end).unpriced
    if not reason:
        return None
    return UnpricedSpan(
        kind="lifetime" if isinstance(of, Lifetime) else "storage",
        id=of.id or 0,
        key=of.key,
        name=span.name,
        attribution=span.attribution,
        provisioning_model=of.provisioning_model if isinstance(of, Lifetime) else ProvisioningModel.STANDARD,
        started_at=of.started_at,
        ended_at=of.ended_at,
        reason=reason,
    )


@dataclass(frozen=True, slots=True)
class _Group:
    """Alike spans: those metered from a second of the last day, and the others, by the second."""

    kind: tuple[Any, ...]
    whose: InstanceKind
    today: Begun | None
    earlier: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Asked:
    connection: Connection
    accrual: Accrual
    start: datetime
    end: datetime
    until: datetime
    scope: Scope
    by: Collection[str]

    @property
    def day(self) -> datetime:
        return day_of(self.until)

    def groups(self, spans: Table, read: _Read) -> list[_Group]:
        """As the ledger has them. They are read anew when it changes, not when time passes."""
        question = ("alike", spans.name, self.start, self.end, self.day, self.scope, frozenset(self.by))

        def made() -> list[_Group]:
            found = read(self.connection, self.end, self.day, self.by, self.scope)
            day, start = second_of(self.day), second_of(self.start)
            return [_group(spans, alike, day, start) for alike in found]

        return remembered(self.connection, (spans,), question, made)

    def one_by_one(self, unlike: Iterable[str | None]) -> Within:
        return Within(self.end, self.accrual.charged_before, self.day, self.scope, frozenset(unlike))


def _group(spans: Table, alike: Alike, day: int, start: int) -> _Group:
    today: Counter[int] = Counter()
    earlier: Counter[int] = Counter()
    for second, count in alike.since.items():
        since = max(second, start)
        (today if since >= day else earlier)[since] += count
    project, preset, owner, job = (*alike.whose, *_NOBODY[len(alike.whose) :])
    model = alike.kind[6] if spans is lifetimes else ProvisioningModel.STANDARD
    whose = project, Attribution(preset, owner, job), model
    return _Group(alike.kind, whose, Begun(today) if today else None, earlier)


def _alike_runs(asked: _Asked, sums: _Sums) -> set[str | None]:
    """Adds up what is alike. Machine types that have no price somewhere are left out, and given back."""
    found = asked.groups(lifetimes, accruing.alike_lifetimes)
    meters = {
        kind: asked.accrual.meter(Shape(*kind[:6]), kind[7], ProvisioningModel(kind[6]), asked.until)
        for kind in {group.kind for group in found}
    }
    unlike = {kind[0] for kind, meter in meters.items() if meter is None}
    day = asked.day.date()
    for group in found:
        shape, meter = group.kind, meters[group.kind]
        if meter is None or shape[0] in unlike:
            continue
        if group.today is not None:
            machine, gpu, seconds = meter.run_up(group.today)
            _add(sums, day, group.whose, (machine, gpu, 0, seconds))
        for since, count in group.earlier.items():
            run = Lifetime(_NO_KEY, _moment(since), Shape(*shape[:6]), ProvisioningModel(shape[6]), shape[7])
            _add_bill(sums, asked.accrual.of_lifetime(run, None, asked.end), group.whose, count)
    return unlike


def _alike_storage(asked: _Asked, sums: _Sums) -> set[str | None]:
    """The same for storage, by resource."""
    found = asked.groups(storage_spans, accruing.alike_storage)
    meters = {
        (resource, size_mib, zone): asked.accrual.storage_meter(resource, size_mib, zone, asked.until)
        for resource, size_mib, zone in {group.kind for group in found}
    }
    unlike = {kind[0] for kind, meter in meters.items() if meter is None}
    day = asked.day.date()
    for group in found:
        resource, size_mib, zone = group.kind
        meter = meters[resource, size_mib, zone]
        if meter is None or resource in unlike:
            continue
        if group.today is not None:
            _add(sums, day, group.whose, (0, 0, meter.run_up(group.today)[0], 0))
        for since, count in group.earlier.items():
            span = StorageSpan(_NO_KEY, "", resource, size_mib, zone, _moment(since))
            _add_bill(sums, asked.accrual.of_storage(span, None, asked.until), group.whose, count)
    return unlike


def _moment(second: int) -> datetime:
    return _EPOCH + timedelta(seconds=second)


def _add(sums: _Sums, day: date, kind: InstanceKind, figures: Sequence[int], count: int = 1) -> None:
    of_day = sums[day, kind]
    for place, figure in enumerate(figures):
        of_day[place] += figure * count


def _add_bill(sums: _Sums, bill: Bill, kind: InstanceKind, count: int = 1) -> None:
    for day, figures in figures_of(bill):
        _add(sums, day, kind, figures, count)


def figures_of(bill: Bill) -> Iterator[tuple[date, Sequence[int]]]:
    """Machine, GPU and storage in nano-dollars, and seconds, by day.

    As the daily roll-up does it: a run's seconds are those of its vCPUs, or of the whole VM.
    """
    for charge in bill.charges:
        is_gpu = charge.resource.startswith("gpu:")
        is_storage = charge.resource.startswith("disk:") or charge.resource == "suspended-memory"
        nanos = charge.amount.nanos
        figures = (
            0 if is_gpu or is_storage else nanos,
            nanos if is_gpu else 0,
            nanos if is_storage else 0,
            charge.seconds if charge.resource.endswith(OF_A_RUN) else 0,
        )
        yield charge.day, figures
