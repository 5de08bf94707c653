"""Rolls spend up by the values of named labels, day by day, a few days in each pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeAlias

from sqlalchemy import Connection, Table, delete, insert, select

from costguard.db.bulk import add_rows, chunks, stored
from costguard.db.lease import Lease
from costguard.db.remembered import remembers
from costguard.db.tables import daily_label_values, daily_labels, daily_presets, instances, label_days
from costguard.db.transaction import Database
from costguard.ledger.charged import charges
from costguard.ledger.charged.label_pieces import charged_pieces, parts_of
from costguard.ledger.charged.vm_charges import VmCharges, charged
from costguard.ledger.labels.label_values import LabelValues, values_among
from costguard.ledger.roll_up import coarser
from costguard.model.budget import Scope
from costguard.model.moments import day_start
from costguard.model.money import add_figures

MOST_DAYS = 20  # in one pass, each in a transaction of its own: some thousand VMs, a few hundredths of a second
_DAY = timedelta(days=1)
_Key: TypeAlias = tuple[Any, ...]
_Sums: TypeAlias = defaultdict[_Key, list[int]]


def roll_up(
    database: Database, labels: Sequence[str], now: datetime, fence: Lease | None = None, most_days: int = MOST_DAYS
) -> int:
    """Make the sums of some days by these labels, the latest first, and forget those by labels that are named no more.

    How many days were made or forgotten. While charges are due nothing is rolled up: their days would change again.
    """
    with database.read() as connection:
        days = _due(connection, tuple(labels), most_days)
        unnamed = [label for label in _stored(connection) if label not in labels]
        old = [(label, day) for label in unnamed for day in _days(connection, label, most_days)]
    done = 0
    for day in days:
        with database.write(fence) as connection:
            if charges.due_ids(connection, day_start(now.astimezone(UTC).date())):
                break
            roll_up_day(connection, day, labels)
        done += 1
    for label, day in old[:most_days]:
        with database.write(fence) as connection:
            _remove(connection, label, day)
        done += 1
    return done


def roll_up_day(connection: Connection, day: date, labels: Collection[str]) -> None:
    """Make the sums of one day by those of these labels by which they are not good."""
    good = set(connection.scalars(select(label_days.c.label).where(label_days.c.day == day)))
    wanted = [label for label in labels if label not in good]
    vms = charged(connection, day, day, Scope(), by_day=False) if wanted else []
    projects = _projects(connection, {vm.instance_id for vm in vms})
    for label in wanted:
        _remove(connection, label, day)
        sums = _sums_of(connection, label, day, vms, projects)
        for table, columns in ((daily_labels, range(9)), (daily_label_values, (0, 3, 1, 2, 4))):
            _store(connection, table, coarser(sums, columns))
        connection.execute(insert(label_days).values(day=day, label=label))


def _sums_of(
    connection: Connection, label: str, day: date, vms: Sequence[VmCharges], projects: dict[int, str]
) -> _Sums:
    """Sums charges by the key of `daily_labels`: the label, its value, the day, and whose money it is."""
    values = values_among(connection, label, day_start(day), projects)
    # A label that changed on a later day had one value all day long.
    cut = _changed_before(values, day_start(day) + _DAY)
    sums: _Sums = defaultdict(lambda: [0, 0, 0, 0])
    for vm in vms:
        if vm.instance_id not in cut:
            whose = vm.attribution
            value = values.at(vm.instance_id, day_start(day))
            kind = (projects[vm.instance_id], whose.preset, whose.owner, whose.job, vm.provisioning_model)
            add_figures(sums[label, value is not None, value or "", day, *kind], vm.figures)
    for piece in charged_pieces(connection, day, day, Scope(), sorted(cut.intersection(projects))):
        project, whose, model = piece.kind
        kind = (project, whose.preset, whose.owner, whose.job, model)
        for value, part in parts_of(values, piece):
            add_figures(sums[label, value is not None, value or "", day, *kind], part)
    return sums


def _changed_before(values: LabelValues, moment: datetime) -> set[int]:
    return {
        instance_id
        for instance_id, changes in values.changes.items()
        if any(change.changed_at < moment for change in changes)
    }


def _projects(connection: Connection, instance_ids: Collection[int]) -> dict[int, str]:
    query = select(instances.c.id, instances.c.project)
    return {
        row.id: row.project
        for some in chunks(instance_ids)
        for row in connection.execute(query.where(instances.c.id.in_(some)))
    }


def _store(connection: Connection, table: Table, sums: Mapping[_Key, Sequence[int]]) -> None:
    names = [column.name for column in table.c]
    as_stored = stored(connection, table, names)
    add_rows(connection, table, names, [as_stored((*key, *amounts)) for key, amounts in sums.items()])


def _remove(connection: Connection, label: str, day: date) -> None:
    """The sums of one day by one label, value by value: in the detailed ones days come after values."""
    coarse, fine = daily_label_values.c, daily_labels.c
    query = select(coarse.is_labelled, coarse.value).where(coarse.label == label, coarse.day == day).distinct()
    for is_labelled, value in connection.execute(query).all():
        of_value = (fine.label == label, fine.is_labelled == is_labelled, fine.value == value, fine.day == day)
        connection.execute(delete(daily_labels).where(*of_value))
    connection.execute(delete(daily_label_values).where(coarse.label == label, coarse.day == day))
    connection.execute(delete(label_days).where(label_days.c.label == label, label_days.c.day == day))


@remembers(daily_presets, label_days)
def _due(connection: Connection, labels: tuple[str, ...], most: int) -> list[date]:
    """Days with charges whose sums are not good, the latest first."""
    day = daily_presets.c.day
    days: set[date] = set()
    for label in labels:
        is_good = select(label_days.c.day).where(label_days.c.label == label)
        days.update(
            connection.scalars(select(day).where(day.not_in(is_good)).distinct().order_by(day.desc()).limit(most))
        )
    return sorted(days, reverse=True)[:most]


@remembers(daily_label_values)
def _stored(connection: Connection) -> list[str]:
    """Labels with sums: each found by one look at the key, not by reading all days."""
    label = daily_label_values.c.label
    query = select(label).order_by(label).limit(1)
    labels: list[str] = []
    before = connection.scalar(query)
    while before is not None:
        labels.append(before)
        before = connection.scalar(query.where(label > before))
    return labels


def _days(connection: Connection, label: str, most: int) -> list[date]:
    day = daily_label_values.c.day
    query = select(day).where(daily_label_values.c.label == label).distinct().order_by(day).limit(most)
    return list(connection.scalars(query))
