"""Stages that no job uses are deleted, once, also by a guard that was cut off in the middle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.api.rows import NOW
from tests.fakes import HandClock
from tests.stages.staged import DIGEST, INPUTS, RULES, SIZE, SOURCE, STAGE, job

from costguard.db.transaction import Database
from costguard.errors import CheckpointLocationUnavailable, Conflict, Missing
from costguard.events import audit_log
from costguard.jobs.rows import job_rows
from costguard.model.data import StageRules
from costguard.model.job import JobState
from costguard.stages import listing, stage_rows
from costguard.stages.expiry import StageExpiry, StageService
from costguard.stages.stage import DataStage, StageState

DAY = timedelta(days=1)
WHOLE = replace(STAGE, state=StageState.WHOLE, staged=SIZE, whole_at=NOW)


class FakeStore:
    """Places that were deleted; it can be away."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.on_delete: Callable[[], None] = lambda: None

    def delete(self, place: str, first: str) -> int:
        assert first == "manifest.json"
        self.on_delete()
        self.deleted.append(place)
        return 8


class Ground:
    def __init__(self, database: Database) -> None:
        self.database, self.clock, self.store = database, HandClock(NOW), FakeStore()

    def put(self, stage: DataStage = WHOLE) -> None:
        with self.database.write() as connection:
            assert stage_rows.save(connection, stage, is_new=True)

    def run(self, rules: StageRules = RULES) -> int:
        return StageExpiry(self.database, self.clock, self.store, rules).run()

    def state(self, digest: str = DIGEST) -> StageState:
        with self.database.read() as connection:
            stage = stage_rows.read(connection, digest)
        assert stage is not None
        return stage.state

    def texts(self) -> list[str]:
        with self.database.read() as connection:
            events = sorted(audit_log.read(connection), key=lambda event: event.id)
        return [one.event.text for one in events if one.event.kind.startswith("Stage")]


@pytest.fixture
def ground(database: Database) -> Ground:
    return Ground(database)


def test_a_stage_goes_two_weeks_after_its_last_use(ground: Ground) -> None:
    """The audit log has it once, with the reason."""
    ground.put()
    ground.clock.advance(14 * DAY - timedelta(seconds=1))
    assert ground.run() == 0
    ground.clock.advance(timedelta(seconds=1))
    assert ground.run() == 1
    assert ground.run() == 0
    assert ground.store.deleted == [WHOLE.place]
    assert ground.state() is StageState.DELETED


@pytest.mark.parametrize("names_it", [True, False])
def test_a_stage_of_an_open_job_stays(ground: Ground, *, names_it: bool) -> None:
    """A job that names the source may launch its next VM at any time."""
    ground.put()
    with ground.database.write() as connection:
        job(connection, inputs=INPUTS if names_it else ())
    ground.clock.advance(100 * DAY)
    assert ground.run() == (0 if names_it else 1)
    assert ground.run(replace(RULES, most=1)) == 0


def test_the_stage_used_longest_ago_goes_where_too_much_is_stored(ground: Ground) -> None:
    """The rest stays."""
    for number in range(3):
        ground.put(replace(WHOLE, digest=str(number) * 64, source=f"{SOURCE}-{number}", used_at=NOW - number * DAY))
    assert ground.run(replace(RULES, most=2 * SIZE)) == 1
    assert ground.state("2" * 64) is StageState.DELETED
    assert ground.state("1" * 64) is StageState.WHOLE


def test_a_deletion_that_was_cut_off_is_done_again(ground: Ground) -> None:
    """It was decided before the first object went: no VM reads what is left, and nothing of it stays for ever."""
    ground.put(replace(WHOLE, used_at=NOW - 20 * DAY))

    def die() -> None:
        raise KeyboardInterrupt

    ground.store.on_delete = die
    with pytest.raises(KeyboardInterrupt):
        ground.run()
    assert ground.state() is StageState.DELETING
    with ground.database.write() as connection:
        job(connection)
    ground.store.on_delete = lambda: None
    assert ground.run() == 1
    assert ground.state() is StageState.DELETED


def test_a_bucket_that_is_away_is_tried_again(ground: Ground) -> None:
    """The list says why."""
    ground.put(replace(WHOLE, used_at=NOW - 20 * DAY))

    def away() -> None:
        raise CheckpointLocationUnavailable("The store does not answer.", "Try again.")

    ground.store.on_delete = away
    assert ground.run() == 0
    with ground.database.read() as connection:
        (view,) = listing.views(connection, RULES, NOW)
    assert (view.stage.state, view.stage.error) == (StageState.DELETING, "The store does not answer. Try again.")
    ground.store.on_delete = lambda: None
    assert ground.run() == 1


def test_a_person_deletes_a_stage(ground: Ground) -> None:
    """A stage that an open job uses stays; a repeat is no other request."""
    service = StageService(ground.database, ground.clock)
    with pytest.raises(Missing):
        service.delete(DIGEST, "ana@example.com")
    ground.put()
    with ground.database.write() as connection:
        job(connection)
    with pytest.raises(Conflict, match="Open jobs use"):
        service.delete(DIGEST, "ana@example.com")
    with ground.database.write() as connection:
        job_rows.set_state(connection, "j1", JobState.SUCCEEDED, "It is done.", None, NOW)
    assert service.delete(DIGEST, "ana@example.com")[1]
    assert not service.delete(DIGEST, "ana@example.com")[1]
    assert ground.run() == 1
    of_request, of_deletion = ground.texts()
    assert of_request.startswith(f"ana@example.com asked to delete the staged copy of {SOURCE}: 100.0 GiB")
    assert of_deletion.startswith(f"The staged copy of {SOURCE} was deleted: 8 objects")
    assert of_deletion.endswith("ana@example.com asked for it.")
