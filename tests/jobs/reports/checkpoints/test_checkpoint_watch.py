"""The watch records the checkpoints of running jobs, and the work at risk or lost."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.builders import at
from tests.jobs.world import BUCKET, World, world

from costguard.checkpoints.buckets import StoreAccess
from costguard.checkpoints.client import StoredCheckpoints
from costguard.errors import CheckpointLocationUnavailable
from costguard.jobs.decide.checkpoints import work_at_risk
from costguard.jobs.reports.checkpoints.checkpoint_watch import CheckpointWatch
from costguard.jobs.rows import job_rows
from costguard.model.attempt import AgentState, Attempt, AttemptState, Interruption, Notice, Outcome
from costguard.model.instance import ProvisioningModel
from costguard.model.job import CheckpointPlan, SeenCheckpoint
from costguard.model.money import Money
from costguard_vm.model.checkpoint import filled, words_of


def _watch(w: World) -> CheckpointWatch:
    return CheckpointWatch(w.database, w.clock, w.shelf, w.terms)


def _seen(w: World) -> SeenCheckpoint:
    with w.database.read() as connection:
        return job_rows.checkpoint(connection, ["j1"])["j1"]


def _running(w: World) -> None:
    w.submit()
    w.until_up("cg-j1-1")
    w.start()
    w.step()


def test_a_running_jobs_checkpoints_are_looked_at_every_five_minutes(sqlite_url: str) -> None:
    """The newest complete one is kept; what cannot be read leaves what was known, and says so."""
    with world(sqlite_url) as w:
        _running(w)
        watch = _watch(w)
        w.shelf.save(10)
        assert watch.run().looked == 0  # it was looked at when its VM was launched
        w.clock.advance(timedelta(minutes=5))
        assert watch.run().looked == 1
        assert (_seen(w).step, _seen(w).advanced_at) == (10, w.clock.now())
        assert watch.run().looked == 0
        w.clock.advance(timedelta(minutes=5))
        w.shelf.trouble = CheckpointLocationUnavailable("gs://runs/train answered 503.")
        assert watch.run().troubles == {"j1": "gs://runs/train answered 503."}
        assert (_seen(w).step, _seen(w).error) == (10, "gs://runs/train answered 503.")


def test_a_checkpoint_is_torn_when_it_still_is_at_the_next_look(sqlite_url: str) -> None:
    """A checkpoint is torn if it is unchanged at the next look: while it is being written it looks the same."""
    with world(sqlite_url) as w:
        _running(w)
        watch = _watch(w)
        w.shelf.save(10)
        w.shelf.tear(20)
        watch.run()
        assert w.events("CheckpointTorn") == []
        for _ in range(3):
            w.clock.advance(timedelta(minutes=5))
            watch.run()
        (reported,) = w.events("CheckpointTorn")
        assert "checkpoint-20: optimizer.pt: missing." in reported.text


def test_a_layout_that_no_rule_recognises_is_reported_within_ten_minutes(sqlite_url: str, tmp_path: Path) -> None:
    """Once, with the pattern that would fit; a save of this very minute may still be renamed."""
    with world(sqlite_url) as w:
        w.submit(checkpoint=CheckpointPlan(f"file://{tmp_path}"))
        w.until_up("cg-j1-1")
        w.start()
        w.step()
        watch = CheckpointWatch(w.database, w.clock, StoredCheckpoints(StoreAccess()), w.terms)
        saved_at = w.clock.now()
        for step in (100, 200):
            (tmp_path / f"net_{step}.pkl").write_bytes(b"x")
            os.utime(tmp_path / f"net_{step}.pkl", (saved_at.timestamp(), saved_at.timestamp() + step))
        while not w.events("CheckpointsUnrecognised"):
            assert w.clock.now() - saved_at < timedelta(minutes=10), "not reported in time"
            w.clock.advance(timedelta(minutes=1))
            watch.run()
        w.clock.advance(timedelta(minutes=5))
        watch.run()
        (reported,) = w.events("CheckpointsUnrecognised")
        assert "launch it with --pattern 'net_{step}.pkl'" in reported.text
        assert "Until then a preemption loses all of its work." in reported.text


def test_checkpoints_that_stop_advancing_are_told_once(sqlite_url: str) -> None:
    """A stall is reported with the work that would be lost, in dollars; again only after it had gone on."""
    with world(sqlite_url) as w:
        _running(w)
        watch = _watch(w)
        w.shelf.save(10)
        for _ in range(40):
            w.clock.advance(timedelta(minutes=5))
            w.beat()
            watch.run()
        (reported,) = w.events("CheckpointsStalled")
        assert f"the newest is {BUCKET}/checkpoint-10; 2 h of work, about $0.45, would be lost" in reported.text, (
            reported.text
        )
        w.shelf.save(20)
        for _ in range(30):
            w.clock.advance(timedelta(minutes=5))
            watch.run()
        assert len(w.events("CheckpointsStalled")) == 2


_RATE = Money.of("2")
_RUN = Attempt(
    id=1,
    job_id="j1",
    number=1,
    name="cg-j1-1",
    project="acme",
    zone="us-central1-a",
    provisioning_model=ProvisioningModel.SPOT,
    request_uuid="",
    max_run=timedelta(hours=24),
    state=AttemptState.RUNNING,
    intended_at=at("09:55"),
    rate=_RATE,
    agent=AgentState(at=at("12:00"), run=1, started_at=at("10:00")),
)


def test_work_at_risk() -> None:
    """Since the newest checkpoint, or since the command began; nothing where no command runs."""
    saved = SeenCheckpoint(at("11:35"), "x", 5, at("11:30"))
    assert work_at_risk.at_risk(_RUN, saved, at("12:00")) == work_at_risk.WorkAtRisk(
        timedelta(minutes=30), Money.of("1")
    )
    before = SeenCheckpoint(at("11:35"), "x", 5, at("09:00"))
    assert work_at_risk.at_risk(_RUN, before, at("12:00")) == work_at_risk.WorkAtRisk(timedelta(hours=2), Money.of("4"))
    assert work_at_risk.at_risk(replace(_RUN, rate=None), None, at("12:00")) == work_at_risk.WorkAtRisk(
        timedelta(hours=2), None
    )
    assert work_at_risk.at_risk(replace(_RUN, state=AttemptState.BOOTING), None, at("12:00")) is None


def _interruption(attempt_id: int, when: str, **given: object) -> Interruption:
    one = Interruption(attempt_id, "j1", 1, Outcome.PREEMPTED, at(when), at(when), Notice.NOTICE)
    return replace(one, **given)  # type: ignore[arg-type]  # any of its fields


def test_work_that_was_lost() -> None:
    """Work since the checkpoint to resume from is lost; without one all of it, also the work that earlier runs had
    saved.
    """
    first = replace(_RUN, state=AttemptState.OVER, outcome=Outcome.PREEMPTED)
    second = replace(first, id=2, number=2, agent=AgentState(run=1, started_at=at("13:00")))
    ended = [_interruption(1, "12:00", lost=timedelta(minutes=30)), _interruption(2, "14:00")]
    assert work_at_risk.lost_work([first], ended[:1], at("11:00")) == work_at_risk.WorkAtRisk(
        timedelta(hours=1), Money.of("2")
    )
    assert work_at_risk.lost_work([first, second], ended, at("11:30")) == work_at_risk.WorkAtRisk(
        timedelta(hours=1), Money.of("2")
    )
    older = work_at_risk.lost_work(
        [first, second], ended, at("11:00")
    )  # the one of 11:30 is torn after all: half an hour more
    assert older == work_at_risk.WorkAtRisk(timedelta(hours=1.5), Money.of("3"))
    assert work_at_risk.lost_work([first, second], ended, None) == work_at_risk.WorkAtRisk(
        timedelta(hours=2.5), Money.of("5")
    )
    zero = [_interruption(1, "12:00", lost=timedelta(hours=2), from_zero=True), ended[1]]
    assert work_at_risk.lost_work([first, second], zero, None) == work_at_risk.WorkAtRisk(
        timedelta(hours=1), Money.of("2")
    )
    assert work_at_risk.lost_work([replace(first, agent=AgentState())], [], None) is None


def test_resume_arguments_are_replaced_after_they_are_split() -> None:
    """A path with blanks stays one word, and what was put in is not looked through again."""
    words = words_of("--from '{checkpoint}' --tag={step} --dir {location}/last")
    resumed = filled(words, "gs://b/a b/{step}", "gs://b/a b", 12)
    assert resumed == ["--from", "gs://b/a b/{step}", "--tag=12", "--dir", "gs://b/a b/last"]
