"""A job from its submission to its end, through the guard's turns."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import text
from tests.jobs.cloud import never_twice
from tests.jobs.world import ANA, ZONES, World, world

from costguard.errors import CheckpointLocationUnavailable
from costguard.jobs.decide.limits.holds import BudgetHold
from costguard.model.attempt import AttemptState, Notice, Outcome
from costguard.model.instance import ProvisioningModel
from costguard.model.job import CheckpointPlan, JobKind, JobState
from costguard.model.money import Money


def _running(w: World, name: str = "cg-j1-1") -> None:
    w.until_up(name)
    w.start(name)
    w.step()
    assert w.job(name.split("-")[1]).state is JobState.RUNNING, w.job().reason


def _preempted(w: World, name: str = "cg-j1-1") -> None:
    """Preempts as Google does: a notice, the command's end, and the VM's half a minute later."""
    w.notice(name)
    w.cloud.preempt(w.vm(name))
    w.exit(name, stop_request="preemption")


def test_a_job_runs_and_succeeds(database_url: str) -> None:
    """A job has one attempt, one VM, made where it costs least, labelled, and deleted when the command is done."""
    with world(database_url) as w:
        w.submit()
        w.until_up("cg-j1-1")
        vm = w.vm()
        assert vm.labels == {
            "costguard-guard": "g1",
            "costguard-job": "j1",
            "costguard-attempt": "cg-j1-1",
            "costguard-generation": "1",
            "costguard-request": w.attempts()[0].request_uuid,
            "costguard-preset": "t4",
            "owner": "ana",
        }
        assert (vm.zone, vm.request.provisioning_model) == (ZONES[0], ProvisioningModel.SPOT)
        w.start()
        w.step()
        assert w.job().state is JobState.RUNNING
        w.exit()
        w.settle()
        (attempt,) = w.attempts()
        assert (attempt.state, attempt.outcome) == (AttemptState.OVER, Outcome.SUCCEEDED)
        assert attempt.rate == w.attempts()[0].rate
        assert attempt.rate is not None
        assert attempt.rate > Money()
        assert w.job().state is JobState.SUCCEEDED
        assert w.cloud.there() == []
        never_twice(w.cloud)
        for kind in ("AttemptLaunched", "AttemptStarted", "AttemptEnded", "JobSucceeded"):
            assert len(w.events(kind)) == 1, kind


def test_job_that_ends_before_any_look_at_its_vm_does_not_cost_nothing(sqlite_url: str) -> None:
    """A VM that no look has shown yet bills all the same, and is not shown as $0.00."""
    with world(sqlite_url) as w:
        w.submit()
        w.until_up("cg-j1-1")
        w.start()
        w.exit()
        w.step()
        (event,) = w.events("JobSucceeded")
        assert "not known" not in event.text, "what is not known yet would stay written down"
        assert "$0.00" not in event.text


def test_a_preempted_job_resumes_from_its_newest_complete_checkpoint(sqlite_url: str) -> None:
    """The next VM is in another zone, with the resume arguments, and with each moment of the recovery written down."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        w.shelf.save(100)
        w.clock.advance(timedelta(minutes=10))
        w.shelf.tear(200)
        w.clock.advance(timedelta(minutes=20))
        noticed = w.clock.now()
        _preempted(w)
        w.step()
        (first, second) = w.attempts()
        assert (first.outcome, second.number) == (Outcome.PREEMPTED, 2)
        assert second.zone != first.zone
        assert (second.resume_from, second.resume_step) == ("gs://runs/train/checkpoint-100", 100)
        assert (
            "'--from_checkpoint', 'gs://runs/train/checkpoint-100'"
            in w.vm("cg-j1-2").request.metadata["costguard-attempt"]
        )
        _running(w, "cg-j1-2")
        (one,) = w.interruptions()
        assert (one.outcome, one.noticed_by, one.happened_at) == (Outcome.PREEMPTED, Notice.NOTICE, noticed)
        assert one.requested_at == noticed + timedelta(seconds=5)
        assert one.resumed_at is not None
        assert one.lost == timedelta(minutes=30)
        assert not one.from_zero
        (resumed,) = w.events("JobResumed")
        assert "checkpoint-100" in resumed.text
        (torn,) = w.events("CheckpointTorn")
        assert "checkpoint-200" in torn.text
        w.settle()
        assert [vm.name for vm in w.cloud.there()] == ["cg-j1-2"]


def test_without_a_checkpoint_it_starts_again_and_says_so_in_dollars(sqlite_url: str) -> None:
    """Starting from zero is never silent."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        w.clock.advance(timedelta(hours=2))
        _preempted(w)
        w.step()
        assert w.attempts()[1].resume_from == ""
        (reported,) = w.events("JobRestartedFromZero")
        assert "2 h of work, about $0.45, are lost" in reported.text, reported.text
        assert "for it had not saved a checkpoint yet" in reported.text
        assert reported.data["saved"] is False
        (one,) = w.interruptions()
        assert one.from_zero
        assert one.lost_cost is not None


def test_a_location_that_cannot_be_read_holds_the_launch_up(sqlite_url: str) -> None:
    """Nobody begins from zero because a bucket was away for a while; the job says what it waits for."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        w.shelf.save(7)
        _preempted(w)
        w.shelf.trouble = CheckpointLocationUnavailable("gs://runs/train answered 503.")
        for _ in range(20):
            w.step()
        assert len(w.attempts()) == 1
        assert w.job().state is JobState.RECOVERING
        assert "gs://runs/train answered 503." in w.job().reason
        assert w.shelf.looks < 8
        w.shelf.trouble = None
        w.settle()
        assert w.attempts()[1].resume_step == 7


@pytest.mark.parametrize("fault", ["deaf", "mute"])
def test_a_lost_answer_makes_no_second_vm(sqlite_url: str, fault: str) -> None:
    """A look finds out whether the insert had its effect; it is asked again under the same request id."""
    with world(sqlite_url) as w:
        w.submit()
        setattr(w.cloud, fault, 2)
        w.until_up("cg-j1-1")
        assert len(w.cloud.all) == 1
        _running(w)
        w.exit()
        setattr(w.cloud, fault, 2)
        w.settle(10)
        assert w.cloud.there() == []
        never_twice(w.cloud)


def test_out_of_stock_moves_on_and_then_waits(sqlite_url: str) -> None:
    """Each zone once; then all are left in peace for a while, which is reported once."""
    with world(sqlite_url) as w:
        w.submit()
        w.cloud.stockouts = set(ZONES)
        while len(w.attempts()) < 3 or w.attempts()[2].outcome is None:
            w.step()
        assert {one.zone for one in w.attempts()} == set(ZONES)
        assert {one.outcome for one in w.attempts()} == {Outcome.STOCKOUT}
        assert "out of stock in 3 zones" in w.job().reason
        assert w.job().state is JobState.QUEUED
        w.settle(20)
        assert len(w.events("JobWaits")) == 1
        assert len(w.attempts()) < 30
        w.cloud.stockouts = set()
        w.settle(20)
        assert len(w.cloud.running()) == 1


def test_a_bad_request_fails_the_job_with_googles_words(sqlite_url: str) -> None:
    """It would be refused everywhere and for ever."""
    with world(sqlite_url) as w:
        w.submit()
        w.cloud.refusals = dict.fromkeys(ZONES, "[nvidia-tesla-a100, n1-standard-8] features are not compatible.")
        w.settle(5)
        assert w.job().state is JobState.FAILED
        assert "features are not compatible" in w.job().reason
        assert [one.state for one in w.attempts()] == [AttemptState.OVER]


def test_a_name_that_is_taken_by_a_strangers_vm(sqlite_url: str) -> None:
    """It is neither adopted nor deleted."""
    with world(sqlite_url) as w:
        job = w.submit()
        w.cloud.mute = 1  # so that the guard has to look
        w.step()
        w.cloud.all[0].labels = {"costguard-attempt": "cg-j1-1", "costguard-guard": "another"}
        w.settle(6)
        assert w.job(job.id).state is JobState.FAILED
        assert "is left alone" in w.job().reason
        assert [vm.name for vm in w.cloud.running()] == ["cg-j1-1"]


def test_checkpoints_on_the_vms_own_disk(sqlite_url: str) -> None:
    """The same VM is started again, however long its zone is out of stock."""
    with world(sqlite_url) as w:
        w.submit(checkpoint=CheckpointPlan("/ckpt", "--resume {checkpoint}"))
        _running(w)
        assert w.vm().request.keeps_disk
        w.cloud.stockouts = set(ZONES)
        _preempted(w)
        for _ in range(30):
            w.step(10, passing=True)
        (attempt,) = w.attempts()
        assert attempt.state is AttemptState.RESTING, attempt
        assert "does not have enough resources" in w.job().reason
        w.cloud.stockouts = set()
        w.settle(5)
        assert w.is_up("cg-j1-1")
        w.start(run=2)
        w.step()
        (attempt,) = w.attempts()
        assert (attempt.state, w.job().state) == (AttemptState.RUNNING, JobState.RUNNING)
        assert attempt.restarts > 1
        (one,) = w.interruptions()
        assert one.resumed_at is not None
        w.exit(run=2)
        w.settle()
        assert w.job().state is JobState.SUCCEEDED
        assert len(w.cloud.all) == 1
        assert w.cloud.there() == []


def test_cancelling_gives_the_command_its_notice(sqlite_url: str) -> None:
    """The agent hears it with its next word; its VM goes after the command."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        w.cancel()
        w.step()
        assert w.cloud.running()
        assert w.beat()
        w.exit(stop_request="cancel")
        w.settle()
        assert w.job().state is JobState.CANCELLED
        assert w.attempts()[0].outcome is Outcome.CANCELLED
        assert w.cloud.there() == []
        (reported,) = w.events("JobCancelled")
        assert reported.actor == ANA


def test_cancelled_before_there_was_a_vm(sqlite_url: str) -> None:
    """Nothing is made that would be deleted at once."""
    with world(sqlite_url) as w:
        w.submit()
        w.cloud.deaf = 1
        w.step()
        w.cancel()
        w.settle(5)
        assert w.job().state is JobState.CANCELLED
        assert w.cloud.all == []
        assert [one.state for one in w.attempts()] == [AttemptState.OVER]


def test_the_orphan_of_a_given_up_intent_is_deleted(sqlite_url: str) -> None:
    """The ledger's own row proves that it gave up the very request that the label names; another's VM stays."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        request, labels = w.vm().request, dict(w.vm().labels)
        with w.database.write() as connection:
            over = "state = 'over', outcome = 'lost', gone_at = intended_at, gce_id = ''"
            connection.execute(text(f"UPDATE attempts SET {over}"))
            connection.execute(text("UPDATE jobs SET state = 'failed'"))
        w.cloud.insert("acme-training", ZONES[1], request, "by another guard")
        w.cloud.all[1].labels = {**labels, "costguard-guard": "g2"}
        w.look()
        w.settle(9)
        assert len(w.cloud.running()) == 2
        w.settle(6)
        assert w.cloud.running() == [w.cloud.all[1]]
        (reported,) = w.events("OrphanDeleted")
        assert reported.gce_id == w.cloud.all[0].gce_id


def test_googles_limit_on_calls_delays_and_loses_nothing(sqlite_url: str) -> None:
    """Every job gets its one VM, within the limit."""
    with world(sqlite_url) as w:
        for number in range(12):
            w.submit(f"j{number}", checkpoint=None)
        w.cloud.per_minute = 4
        w.settle(8, every=5)
        assert len(w.cloud.running()) == 12
        never_twice(w.cloud)
        assert w.cloud.refused_calls < 40


def test_one_odd_job_stops_no_other(sqlite_url: str) -> None:
    """A job that cannot be read is reported; the others go on."""
    with world(sqlite_url) as w:
        w.submit("j1")
        w.submit("j2")
        with w.database.write() as connection:
            connection.execute(text("""UPDATE jobs SET recipe = '{"zones": 3}' WHERE id = 'j1'"""))
        report = w.step()
        w.until_up("cg-j2-1")
        assert any("j1 cannot be read" in trouble for trouble in report.troubles)


def test_a_spent_budget_lets_no_vm_be_launched(sqlite_url: str) -> None:
    """The job waits with the budget's own words."""
    with world(sqlite_url) as w:
        w.submit()
        w.held["j1"] = BudgetHold(hold="the budget research is spent ($100 of $100) until Mon 00:00 UTC")
        w.settle(2)
        assert w.cloud.all == []
        assert "the budget research is spent" in w.job().reason
        w.held.clear()
        w.settle(10)
        assert len(w.cloud.running()) == 1


def test_a_development_vm_has_no_agent(sqlite_url: str) -> None:
    """It runs when its VM does; cancelled, it goes at once."""
    with world(sqlite_url) as w:
        w.submit(kind=JobKind.DEV, command=(), checkpoint=None)
        w.until_up("cg-j1-1")
        w.step(passing=True)
        assert w.job().state is JobState.RUNNING, w.job()
        assert dict(w.vm().request.metadata) == {"install-nvidia-driver": "True"}
        w.cancel()
        w.settle()
        assert w.job().state is JobState.CANCELLED
        assert w.cloud.there() == []


def test_a_turn_without_news_decides_nothing(sqlite_url: str) -> None:
    """Heartbeats are no news; each job is looked at once a minute all the same."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        w.step()
        decided = []
        for number in range(24):
            w.beat(step=number)
            decided.append(w.step(5).decided)
        assert sum(decided) <= 3, decided


def test_a_deadline_that_passes_is_told_and_stops_nothing(sqlite_url: str) -> None:
    """The deadline is reported once."""
    with world(sqlite_url) as w:
        w.submit(deadline=w.clock.now() + timedelta(minutes=2))
        _running(w)
        for _ in range(30):
            w.beat()
            w.step(10)
        assert len(w.events("JobDeadlinePassed")) == 1
        assert w.job().state is JobState.RUNNING


def test_a_development_vm_is_not_booting_for_ever(sqlite_url: str) -> None:
    """It has no agent that would say that it is up: that its VM is there must do."""
    with world(sqlite_url) as w:
        w.submit(kind=JobKind.DEV, command=(), checkpoint=None)
        w.until_up("cg-j1-1")
        w.step()
        assert w.attempts()[0].state is AttemptState.RUNNING
        assert w.job().state is JobState.RUNNING
