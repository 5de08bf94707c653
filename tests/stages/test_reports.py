"""Agents' reports: what left the source is counted, and one VM may fetch, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.api.rows import NOW
from tests.fakes import HandClock
from tests.stages.staged import ADDRESS, DIGEST, REPORT, RULES, SIZE, SOURCE, job

from costguard.db.transaction import Database
from costguard.model.money import Money
from costguard.spend import downloads
from costguard.stages import stage_rows
from costguard.stages.reports import StageReports
from costguard.stages.stage import StageAnswer, StageReport

WANTS = replace(REPORT, wants=True)
GIB = 1 << 30


class Ground:
    def __init__(self, database: Database) -> None:
        self.database, self.clock = database, HandClock(NOW)
        self.reports = StageReports(database, self.clock, RULES)
        with database.write() as connection:
            self.lost, self.present = job(connection)

    def paid(self) -> Money | None:
        with self.database.read() as connection:
            return downloads.of_jobs(connection, ["j1"]).get("j1")

    def ahead(self) -> Money:
        with self.database.read() as connection:
            return downloads.of_next_vms(connection, ["j1"])["j1"].total


@pytest.fixture
def ground(database: Database) -> Ground:
    return Ground(database)


def test_a_job_pays_for_the_bytes_that_left_the_source(ground: Ground) -> None:
    """The first VM is lost after 40 of 100 GiB, and the next one fetches the rest: $9 in all, and not $18."""
    assert ground.paid() is None
    ground.reports.answer(ground.lost, replace(WANTS, from_source=40 * GIB, staged=40 * GIB))
    assert (ground.paid(), ground.ahead()) == (Money.of("3.6"), Money.of("5.4"))
    answer = ground.reports.answer(ground.present, replace(WANTS, from_source=60 * GIB, staged=SIZE, is_whole=True))
    assert answer.use
    assert (ground.paid(), ground.ahead()) == (Money.of(9), Money.of(0))


def test_a_report_that_comes_twice_or_late_counts_once(ground: Ground) -> None:
    """The most that a VM ever said is what it fetched."""
    for size in (40, 60, 40):
        ground.reports.answer(ground.present, replace(WANTS, from_source=size * GIB))
    assert ground.paid() == Money.of("5.4")


def test_a_source_that_changed_is_paid_for_both_listings(ground: Ground) -> None:
    """The second listing has a stage of its own."""
    ground.reports.answer(ground.present, replace(WANTS, from_source=50 * GIB))
    ground.reports.answer(ground.present, replace(WANTS, digest="a" * 64, from_source=SIZE))
    assert ground.paid() == Money.of("13.5")


def test_a_vm_whose_command_runs_without_a_report_paid_in_full(database: Database) -> None:
    """Unknown is not zero: it downloaded all by itself."""
    with database.write() as connection:
        job(connection, vms=1)
    with database.read() as connection:
        assert downloads.of_jobs(connection, ["j1"]) == {}
    with database.write() as connection:
        job(connection, "j2", vms=1, started_at=NOW)
    with database.read() as connection:
        assert downloads.of_jobs(connection, ["j1", "j2"]) == {"j2": Money.of(9)}


def test_one_vm_fetches_until_it_is_gone(ground: Ground) -> None:
    """An attempt that is over has no VM that could fetch."""
    assert ground.reports.answer(ground.present, WANTS).fetch
    assert not ground.reports.answer(ground.lost, WANTS).fetch
    with ground.database.write() as connection:
        stage = stage_rows.lock(connection, DIGEST)
        assert stage is not None
        stage_rows.save(connection, replace(stage, holder=ground.lost, renewed_at=NOW), is_new=False)
    assert ground.reports.answer(ground.present, WANTS).fetch


@pytest.mark.parametrize(
    "report",
    [
        replace(WANTS, source="s3://another/v1"),
        replace(WANTS, address="gs://strangers/costguard/stage"),
        replace(WANTS, size=SIZE + 1),
    ],
    ids=["a source of another job", "a bucket that the settings do not name", "another size"],
)
def test_a_report_on_what_is_not_the_jobs_is_refused(ground: Ground, report: StageReport) -> None:
    """It neither uses the stage nor becomes its holder, so that it vouches for nothing."""
    ground.reports.answer(ground.lost, REPORT)
    assert ground.reports.answer(ground.present, report) == StageAnswer(use=False, fetch=False)
    with ground.database.read() as connection:
        stage = stage_rows.read(connection, DIGEST)
    assert stage is not None
    assert (stage.address, stage.source, stage.size, stage.holder) == (ADDRESS, SOURCE, SIZE, "")


def test_a_stage_in_a_place_of_a_strangers_is_never_made(ground: Ground) -> None:
    """The bytes count, whatever the place is."""
    report = replace(WANTS, address="gs://strangers/costguard/stage", from_source=SIZE)
    assert ground.reports.answer(ground.present, report) == StageAnswer(use=False, fetch=False)
    with ground.database.read() as connection:
        assert stage_rows.stored(connection) == []
    assert ground.paid() == Money.of(9)


def test_an_unknown_attempt_is_refused(ground: Ground) -> None:
    """Nothing of it is stored."""
    assert ground.reports.answer("cg-nobody-1", WANTS) == StageAnswer(use=False, fetch=False)
    with ground.database.read() as connection:
        assert stage_rows.stored(connection) == []


def test_the_right_to_fetch_is_lost_by_silence(ground: Ground) -> None:
    """A VM that hangs holds up no other."""
    with ground.database.write() as connection:
        other = job(connection, "j2", vms=1)[0]
    assert ground.reports.answer(ground.present, WANTS).fetch
    assert not ground.reports.answer(other, WANTS).fetch
    ground.clock.advance(timedelta(minutes=2))
    assert ground.reports.answer(other, WANTS).fetch
