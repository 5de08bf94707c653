"""Operations: kept for ever, told once, and never taken back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from costguard.db.transaction import Database
from costguard.ledger import operations
from costguard.model.observation import OperationStatus, SeenOperation

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
INSERT = SeenOperation(
    project="lab",
    operation_id="1",
    kind="insert",
    target_id="77",
    target_name="trainer",
    zone="us-central1-a",
    user="mira@example.com",
    status=OperationStatus.RUNNING,
    inserted_at=T0,
    started_at=T0 + timedelta(seconds=1),
)
DONE = replace(INSERT, status=OperationStatus.DONE, ended_at=T0 + timedelta(seconds=40))


def record(database: Database, *ops: SeenOperation) -> list[SeenOperation]:
    with database.write() as connection:
        return operations.record(connection, ops)


def known(database: Database, *targets: str, project: str = "lab") -> dict[str, list[SeenOperation]]:
    with database.read() as connection:
        return operations.of_targets(connection, project, targets)


def test_an_operation_is_news_once(database: Database) -> None:
    """An operation recorded before is not told again, and comes back as it was seen."""
    assert record(database, INSERT) == [INSERT]
    assert record(database, INSERT) == []
    assert known(database, "77") == {"77": [INSERT]}


def test_an_operation_that_went_on_is_news_again(database: Database) -> None:
    """The status, the end and the error are kept as last seen."""
    failed = replace(DONE, error_code="ZONE_RESOURCE_POOL_EXHAUSTED", error_message="no T4 left", status_message="x")
    record(database, INSERT)
    assert record(database, failed) == [failed]
    assert record(database, failed) == []
    assert known(database, "77") == {"77": [failed]}


def test_what_is_done_stays_done(database: Database) -> None:
    """An older answer, in the same look or in a later one, changes nothing."""
    assert record(database, DONE, INSERT) == [DONE]
    assert record(database, INSERT) == []
    assert known(database, "77") == {"77": [DONE]}


def test_one_id_in_two_projects_is_two_operations(database: Database) -> None:
    """Operations are known by project and id."""
    other = replace(INSERT, project="other")
    assert record(database, INSERT, other) == [INSERT, other]
    assert known(database, "77", project="other") == {"77": [other]}


def test_targets_are_found_in_any_number_oldest_first(database: Database) -> None:
    """More than a thousand VMs may be asked for at once; those without operations are left out."""
    ops = [
        replace(INSERT, operation_id=f"{n}-{part}", target_id=str(n), inserted_at=T0 + timedelta(hours=2 - part))
        for n in range(1100)
        for part in (1, 2)
    ]
    assert len(record(database, *ops)) == 2200
    by_target = known(database, *(str(n) for n in range(1200)))
    assert len(by_target) == 1100
    assert [op.operation_id for op in by_target["1034"]] == ["1034-2", "1034-1"]


def test_odd_texts_are_stored(database: Database) -> None:
    """A NUL, half a surrogate pair or a megabyte in Google's message cannot make a pass fail."""
    odd = replace(DONE, error_code="X", error_message="a\0b\ud800c" + "é" * 1_000_000)
    assert record(database, odd) == [odd]
    assert record(database, odd) == []
    [stored] = known(database, "77")["77"]
    assert stored.error_message is not None
    assert stored.error_message.startswith("a\N{REPLACEMENT CHARACTER}b?c")
