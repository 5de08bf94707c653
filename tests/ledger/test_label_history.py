"""Labels that change keep what they were until then."""

from __future__ import annotations

from collections.abc import Mapping

from tests.builders import at, observation, operation, seen
from tests.fakes import FakeCloud

from costguard.db.transaction import Database
from costguard.ledger.labels.label_history import LabelChange, changes_of, changes_since, moment_of_change
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.record import record
from costguard.model.observation import SeenOperation

_BELONGING = Belonging((), OwnerRules(domain="example.com"))
_START = at("2026-01-01T00:00")


def _look(database: Database, labels: Mapping[str, str], read: str, *operations: SeenOperation) -> None:
    vm = seen(labels=labels, fingerprint=repr(labels))
    record(database, FakeCloud(), observation(vm, read=read, operations=operations), _BELONGING, None)


def _changes(database: Database, label: str) -> list[LabelChange]:
    with database.read() as connection:
        return [change for changes in changes_since(connection, label, _START).values() for change in changes]


def test_steady_labels_are_not_stored_twice(database: Database) -> None:
    """A label stands with the VM: only a change has a row."""
    _look(database, {"experiment": "a"}, "12:00")
    _look(database, {"experiment": "a"}, "12:01")
    assert _changes(database, "experiment") == []


def test_label_change_is_dated_by_googles_operation(database: Database) -> None:
    """The listing says only what labels are; the operation says when they were set."""
    _look(database, {"experiment": "a"}, "12:00")
    _look(database, {"experiment": "b"}, "12:10", operation("setLabels", "12:07", "12:07"))
    (change,) = _changes(database, "experiment")
    assert (change.changed_at, change.old_value) == (at("12:07"), "a")


def test_label_change_without_an_operation_is_dated_by_the_look(database: Database) -> None:
    """A change that no operation tells was so from the moment at which it was seen, never earlier."""
    _look(database, {"experiment": "a"}, "12:00")
    _look(database, {"experiment": "b"}, "12:10")
    assert [change.changed_at for change in _changes(database, "experiment")] == [at("12:10")]


def test_added_and_removed_labels_are_told_from_empty_ones(database: Database) -> None:
    """Google allows a label whose value is empty: a VM without the label is another thing."""
    _look(database, {}, "12:00")
    _look(database, {"experiment": ""}, "12:10")
    _look(database, {}, "12:20")
    assert [change.old_value for change in _changes(database, "experiment")] == [None, ""]


def test_failed_operation_dates_no_change() -> None:
    """A setLabels that was refused changed nothing."""
    refused = operation("setLabels", "12:03", "12:03", error_code="CONDITION_NOT_MET")
    done = operation("setLabels", "12:02", "12:02")
    assert moment_of_change([done, refused, operation("start", "12:04", "12:05")], at("12:10")) == at("12:02")


def test_labels_that_google_changes_itself_are_left_out() -> None:
    """Services of Google's mark their VMs with goog- labels, as often as they like."""
    changes = changes_of(1, {"goog-hash": "1", "team": "x"}, {"goog-hash": "2", "team": "y"}, at("12:00"))
    assert [change.label for change in changes] == ["team"]


def test_changes_are_read_after_a_moment(database: Database) -> None:
    """A change at the very moment is over: the new value counts from then on."""
    _look(database, {"experiment": "a"}, "12:00")
    _look(database, {"experiment": "b"}, "12:10")
    with database.read() as connection:
        assert len(changes_since(connection, "experiment", at("12:09"))) == 1
        assert changes_since(connection, "experiment", at("12:10")) == {}
