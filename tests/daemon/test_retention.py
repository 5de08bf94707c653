"""Old events, operations, messages and outputs go to archives, and what is still needed stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, update
from tests.ledger.test_charging import Ledger

from costguard.daemon.backups import compact
from costguard.daemon.retention import REQUESTS_KEPT, Retention, archive_old, forget_requests
from costguard.db import archive_file
from costguard.db.tables import archives, attempts, events, feed_requests, instances, jobs, messages, operations
from costguard.db.transaction import Database
from costguard.events import stream

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
OLD = NOW - timedelta(days=200)
KEPT = timedelta(days=90)


def event(key: str, at: datetime, **more: Any) -> dict[str, Any]:
    row = {"gce_id": "", "project": "p", "data": {}, "kind": "LifetimeEnded", **more}
    return {"key": key, "occurred_at": at, "recorded_at": at, "text": f"{key} happened.", **row}


def operation(name: str, target: str, at: datetime) -> dict[str, Any]:
    texts = {"target_name": "vm", "zone": "us-central1-a", "kind": "stop", "user": "ann", "status": "DONE"}
    return {"project": "p", "operation_id": name, "target_id": target, "inserted_at": at, **texts}


def message(key: str, at: datetime, **more: Any) -> dict[str, Any]:
    row = {"kind": "digest", "status": "accepted", "data": {"text": key}, "address": "#gpu", **more}
    return {"key": key, "intended_at": at, "try_after": at, **row}


@pytest.fixture
def filled(database: Database) -> Database:
    """Two VMs, of which the second is gone, a job that is over, and one that goes on."""
    with database.write() as connection:
        ledger = Ledger(connection)
        ledger.vm()
        connection.execute(update(instances).where(instances.c.id == ledger.vm()).values(gone_at=OLD))
        texts = dict.fromkeys(("kind", "name", "owner", "preset", "project", "reason", "via"), "")
        for job, state in (("over", "succeeded"), ("goes-on", "running")):
            row = {"id": job, "spec": {}, "recipe": {}, "state": state, "created_at": OLD, **texts}
            connection.execute(insert(jobs).values(row))
            needed = dict.fromkeys(("zone", "gpu_type", "provisioning_model", "project"), "")
            row = {"job_id": job, "number": 1, "name": job, "max_run_s": 1, "state": "over", "request_uuid": job}
            ended = {"intended_at": OLD, "ended_at": OLD, "output": f"step 1 of {job}"}
            connection.execute(insert(attempts).values({**row, **needed, **ended}))
        rows = [
            event("old", OLD),
            event("of-vm-there", OLD, gce_id="1"),
            event("of-vm-gone", OLD, gce_id="2"),
            event("of-open-job", OLD, data={"job": "goes-on"}),
            event("of-job", OLD, data={"job": "over"}),
            event("prices", OLD, kind="PricesRead"),
            event("recent", NOW - timedelta(days=89)),
        ]
        connection.execute(insert(events), rows)
        connection.execute(
            insert(operations),
            [operation("there", "1", OLD), operation("gone", "2", OLD), operation("recent", "2", NOW)],
        )
        sent = [
            message("old", OLD),
            message("waiting", OLD, status="intended"),
            message("card", OLD, kind="job"),
            message("recent", NOW),
        ]
        connection.execute(insert(messages), sent)
    return database


def archive(database: Database, folder: Path, at_once: int = 100) -> None:
    archive_old(database, Retention(folder, None, KEPT, KEPT, KEPT, KEPT), NOW, at_once=at_once)


def test_old_events_are_archived(filled: Database, tmp_path: Path) -> None:
    """The events of VMs that are there, of open jobs, and the last prices read stay."""
    archive(filled, tmp_path)
    with filled.read() as connection:
        assert set(connection.scalars(select(events.c.key))) == {"of-vm-there", "of-open-job", "prices", "recent"}
    assert archived(filled, tmp_path, "events", "key") == {"old", "of-vm-gone", "of-job"}


def test_old_operations_are_archived(filled: Database, tmp_path: Path) -> None:
    """The operations of a VM that is there stay: its runs are derived from them."""
    archive(filled, tmp_path)
    with filled.read() as connection:
        assert set(connection.scalars(select(operations.c.operation_id))) == {"there", "recent"}
    assert archived(filled, tmp_path, "operations", "operation_id") == {"gone"}


def test_sent_message_stays_known_as_sent(filled: Database, tmp_path: Path) -> None:
    """The key stays, so that it is not sent again; waiting messages, and the cards of jobs, stay whole."""
    archive(filled, tmp_path)
    with filled.read() as connection:
        rows = connection.execute(select(messages.c.key, messages.c.data, messages.c.status)).all()
    data = {row.key: row.data for row in rows}
    assert {row.key: row.status for row in rows} == dict.fromkeys(data, "accepted") | {"waiting": "intended"}
    assert data == {"old": {}, **{key: {"text": key} for key in ("waiting", "card", "recent")}}
    assert archived(filled, tmp_path, "messages", "key") == {"old"}


def test_old_output_says_where_it_is(filled: Database, tmp_path: Path) -> None:
    """The output of a job that is over names its archive; that of an open job stays."""
    archive(filled, tmp_path)
    with filled.read() as connection:
        outputs = {row.name: row.output for row in connection.execute(select(attempts.c.name, attempts.c.output))}
        file = connection.scalar(select(archives.c.file).where(archives.c.kind == "outputs"))
    assert outputs == {
        "goes-on": "step 1 of goes-on",
        "over": f"[This output was archived: costguard db archive --read {file}]",
    }
    assert archived(filled, tmp_path, "outputs", "output") == {"step 1 of over"}


@pytest.mark.parametrize("at_once", [1, 2])
def test_rows_that_stay_do_not_stop_archiving(filled: Database, tmp_path: Path, at_once: int) -> None:
    """The rows that must stay stand among those that go, however few rows are in a file."""
    archive(filled, tmp_path, at_once)
    assert archived(filled, tmp_path, "events", "key") == {"old", "of-vm-gone", "of-job"}
    assert archived(filled, tmp_path, "operations", "operation_id") == {"gone"}
    assert archived(filled, tmp_path, "messages", "key") == {"old"}
    assert archived(filled, tmp_path, "outputs", "output") == {"step 1 of over"}


def test_archiving_again_changes_nothing(filled: Database, tmp_path: Path) -> None:
    """A second run finds nothing old."""
    archive(filled, tmp_path)
    files = sorted(tmp_path.iterdir())
    archive(filled, tmp_path)
    assert sorted(tmp_path.iterdir()) == files


def test_freed_space_of_sqlite_is_given_back(sqlite_url: str, sqlite_database: Database, tmp_path: Path) -> None:
    """The file is shorter once what filled it is archived, and `compact` leaves no free page."""
    with sqlite_database.write() as connection:
        many = [event(f"event-{number}", OLD, data={"text": "x" * 500}) for number in range(3000)]
        connection.execute(insert(events), [*many, event("recent", NOW)])
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    before = pages(sqlite_database)
    archive(sqlite_database, tmp_path / "archive")
    assert pages(sqlite_database) < before / 2
    sqlite_database.close()
    _, after = compact(sqlite_url)
    assert after == file.stat().st_size


def pages(database: Database) -> int:
    with database.read() as connection:
        count: int = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        return count


def archived(database: Database, folder: Path, kind: str, column: str) -> set[str]:
    with database.read() as connection:
        files = connection.execute(select(archives).where(archives.c.kind == kind)).all()
    rows = [row for file in files for row in archive_file.read(folder / file.file, file.sha256)]
    return {row[column] for row in rows}


def test_newest_event_stays_however_old(filled: Database, tmp_path: Path) -> None:
    """Readers go on from an event's number: one that came again would hide the next event from them."""
    with filled.write() as connection:
        connection.execute(insert(events), [event("last", OLD)])
        last = stream.latest_id(connection)
    archive(filled, tmp_path)
    with filled.write() as connection:
        assert stream.latest_id(connection) == last
        connection.execute(insert(events), [event("next", NOW)])
        assert [one.event.key for one in stream.after(connection, last, 10)] == ["next"]


def test_what_an_insert_asked_for_goes_after_35_days(database: Database) -> None:
    """A VM that no listing has shown by then never will be shown."""
    ages = {"1": timedelta(days=36), "2": timedelta(days=34)}
    with database.write() as connection:
        rows = [
            {"project": "p", "gce_id": vm, "heard_at": NOW - age, "zone": "z", "request": {}}
            for vm, age in ages.items()
        ]
        connection.execute(insert(feed_requests), rows)
    assert forget_requests(database, NOW - REQUESTS_KEPT, None) == 1
    with database.read() as connection:
        assert connection.scalars(select(feed_requests.c.gce_id)).all() == ["2"]
