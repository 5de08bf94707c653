"""Spend by a label's value: whole to the nano-dollar, and split when the label changed."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection
from tests.api import rows
from tests.api.rows import NOW

from costguard.db import tables
from costguard.db.transaction import Database
from costguard.ledger.accrual import accrual_at
from costguard.ledger.charged import charging
from costguard.ledger.labels import label_history
from costguard.ledger.labels.label_history import LabelChange
from costguard.ledger.running.running_totals import catch_up
from costguard.model.budget import LabelFilter, Scope
from costguard.model.money import Amounts
from costguard.spend.label_spend import LabelSpend, spend_by_label
from costguard.spend.spend import Spend, spend
from costguard.spend.spend_rows import Grouping
from costguard.spend.vm_spend import VmSpend, spend_by_vm

_EXAMPLES = 25 if "COSTGUARD_OTHER_EXAMPLES" in os.environ else 8
_HOUR, _SECOND, _DAY = timedelta(hours=1), timedelta(seconds=1), timedelta(days=1)
_LABEL = "cost-center"
_FIRST, _LAST = (NOW - 9 * _DAY).date(), NOW.date()
_NOTHING = Amounts(0, 0, 0, 0)
_VALUES = st.sampled_from([None, "", "a", "b"])
_CHANGES = st.dictionaries(st.integers(0, 200 * 3600).map(lambda s: NOW - s * _SECOND), _VALUES, max_size=4)
# All of it has a price, all but the GPU, or nothing.
_SHAPES: list[dict[str, Any]] = [{}, {}, {**rows.N1, "gpu_type": "nvidia-l4", "gpu_count": 1}, rows.H100]
_VMS = st.tuples(
    _VALUES,
    _CHANGES,
    st.integers(1, 200 * 3600),
    st.none() | st.integers(1, 100 * 3600),
    st.sampled_from(range(len(_SHAPES))),
)


def _run(
    connection: Connection,
    number: int,
    value: str | None,
    started_at: datetime,
    ended_at: datetime | None = None,
    **shape: Any,
) -> int:
    labels = {} if value is None else {_LABEL: value}
    vm = rows.instance(connection, f"vm-{number}", gce_id=str(number), labels=labels, **shape)
    rows.lifetime(connection, vm, started_at, ended_at=ended_at, charged_to=None, **shape)
    rows.storage(connection, vm, started_at, ended_at=ended_at, charged_to=None)
    return vm


def _changed(connection: Connection, vm: int, at: datetime, old: str | None) -> None:
    label_history.store(connection, [LabelChange(vm, _LABEL, at, old)])


def _filtered(
    database: Database, value: str | None, *group_by: Grouping, scope: Scope = Scope()
) -> tuple[Spend, tuple[VmSpend, ...]]:
    """The same days with a filter: as Spend has them, and VM by VM."""
    scope = replace(scope, label=LabelFilter(_LABEL, value))
    with database.read() as connection:
        accrual = accrual_at(connection, NOW)
        spent = spend(connection, accrual, _FIRST, _LAST, group_by, scope)
        vms, whole = spend_by_vm(connection, accrual, _FIRST, _LAST, [Grouping.VM], scope)
    assert whole.total == spent.total
    return spent, vms


def _read(database: Database, scope: Scope = Scope()) -> tuple[dict[str | None, LabelSpend], Spend]:
    with database.read() as connection:
        labelled, whole = spend_by_label(connection, accrual_at(connection, NOW), _FIRST, _LAST, _LABEL, scope)
    return {row.value: row for row in labelled}, whole


def test_unlabelled_vms_are_told_from_empty_labels(database: Database) -> None:
    """Google allows an empty value: VMs without the label are a group of their own."""
    with database.write() as connection:
        rows.prices(connection)
        _run(connection, 1, None, NOW - 2 * _HOUR)
        _run(connection, 2, "", NOW - 3 * _HOUR)
        _run(connection, 3, "a", NOW - 4 * _HOUR)
    labelled, _ = _read(database)
    assert {value: row.amounts.seconds for value, row in labelled.items()} == {None: 7200, "": 10800, "a": 14400}


def test_label_change_splits_charges_at_its_moment(database: Database) -> None:
    """Stored charges of past days and what accrues today are split alike, to the second."""
    began, changed_at, again_at = NOW - 60 * _HOUR, NOW - 40 * _HOUR, NOW - _HOUR
    with database.write() as connection:
        rows.prices(connection)
        vm = _run(connection, 1, "b", began)
        _changed(connection, vm, changed_at, "a")
        _changed(connection, vm, again_at, None)
    before, _ = _read(database)
    charging.charge_due(database, NOW)
    labelled, _ = _read(database)
    assert {value: row.amounts.seconds for value, row in labelled.items()} == {
        "a": 20 * 3600,
        None: 39 * 3600,
        "b": 3600,
    }
    assert before == labelled


def test_scope_of_labels_is_the_scope_of_spend(database: Database) -> None:
    """The VMs of one owner alone count where one is named."""
    with database.write() as connection:
        rows.prices(connection)
        _run(connection, 1, "a", NOW - 2 * _HOUR)
    labelled, whole = _read(database, Scope(owner="nobody@lab.example"))
    assert (labelled, whole.total.seconds) == ({}, 0)


def test_vm_without_a_price_is_counted_under_its_label(database: Database) -> None:
    """An amount that leaves something out says so in its own row."""
    with database.write() as connection:
        rows.prices(connection)
        _run(connection, 1, "a", NOW - 2 * _HOUR, None, **rows.H100)
    labelled, whole = _read(database)
    assert labelled["a"].unpriced == whole.unpriced > 0


def test_filter_counts_only_the_time_in_which_the_value_held(database: Database) -> None:
    """A VM that was moved from one experiment to another costs each its hours, by day and in all."""
    with database.write() as connection:
        rows.prices(connection)
        vm = _run(connection, 1, "b", NOW - 60 * _HOUR)
        _run(connection, 2, "b", NOW - 2 * _HOUR)
        _run(connection, 3, None, NOW - 3 * _HOUR)
        _changed(connection, vm, NOW - 40 * _HOUR, "a")
    charging.charge_due(database, NOW)
    seconds = {value: _filtered(database, value)[0].total.seconds for value in ("a", "b", None, "", "no-such")}
    assert seconds == {"a": 20 * 3600, "b": 42 * 3600, None: 3 * 3600, "": 0, "no-such": 0}
    spent, vms = _filtered(database, "a", Grouping.DAY)
    assert [vm.vm.name for vm in vms] == ["vm-1"]
    assert {row.group[0] for row in spent.rows} == {(NOW - back * _HOUR).date().isoformat() for back in range(41, 61)}


def test_unpriced_vm_counts_under_each_value_that_it_had(database: Database) -> None:
    """Each amount that is too low says so; an amount of other VMs does not."""
    with database.write() as connection:
        rows.prices(connection)
        vm = _run(connection, 1, "a", NOW - 4 * _HOUR, None, **rows.H100)
        _changed(connection, vm, NOW - 2 * _HOUR, "b")
    labelled, whole = _read(database)
    gaps = whole.unpriced
    assert {value: row.unpriced for value, row in labelled.items()} == {"a": gaps, "b": gaps}
    counted = {value: _filtered(database, value)[0].unpriced for value in ("a", "b", None)}
    assert counted == {"a": gaps, "b": gaps, None: 0}
    assert gaps > 0


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(vms=st.lists(_VMS, max_size=5))
def test_values_add_up_to_the_whole(
    sqlite_database: Database,
    vms: list[tuple[str | None, dict[datetime, str | None], int, int | None, int]],
) -> None:
    """No nano-dollar, no second and nothing without a price is lost or counted twice, whatever changed when, and
    whatever is charged.
    """
    with sqlite_database.write() as connection:
        for table in (
            *(tables.label_changes, tables.charges, tables.lifetimes, tables.storage_spans, tables.instances),
            *(tables.daily_spend, tables.daily_totals, tables.daily_owners, tables.daily_spot),
            tables.daily_presets,
            *(tables.daily_spot_totals, tables.running_totals, tables.burn_rates, tables.prices),
        ):
            connection.execute(table.delete())
        rows.prices(connection)
        for number, (value, changes, back, lasted, shape) in enumerate(vms):
            began = NOW - back * _SECOND
            ended_at = None if lasted is None else min(NOW, began + lasted * _SECOND)
            vm = _run(connection, number, value, began, ended_at, **_SHAPES[shape])
            for at, old in changes.items():
                _changed(connection, vm, at, old)
    for then in (lambda: charging.charge_due(sqlite_database, NOW), lambda: catch_up(sqlite_database, NOW), None):
        labelled, whole = _read(sqlite_database)
        for part in ("machine", "gpu", "storage"):
            nanos = sum(getattr(row.amounts, part).nanos for row in labelled.values())
            assert nanos == getattr(whole.total, part).nanos
        assert sum(row.amounts.seconds for row in labelled.values()) == whole.total.seconds
        for value in {None, "", "a", "b", *labelled}:
            spent, by_vm = _filtered(sqlite_database, value, Grouping.DAY, Grouping.OWNER)
            row = labelled.get(value)
            assert spent.total == (_NOTHING if row is None else row.amounts)
            assert spent.unpriced == (0 if row is None else row.unpriced)
            assert sum(vm.amounts.total.nanos for vm in by_vm) == spent.total.total.nanos
            assert sum(row.amounts.total.nanos for row in spent.rows) == spent.total.total.nanos
        if then is not None:
            then()
