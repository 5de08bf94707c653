"""Jobs on a reservation: the guard keeps the limits of VMs, nothing follows its end, a full one is waited for."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.builders import at
from tests.jobs.world import BUCKET, RECIPE, ZONES, World, world

from costguard.jobs.decide.recovery.ending import outcome_of
from costguard.jobs.rows import job_rows
from costguard.model.attempt import Outcome
from costguard.model.buying import RESERVED, bought
from costguard.model.instance import ProvisioningModel
from costguard.model.job import JobState, SeenCheckpoint
from costguard.model.launch import OperationAnswer, Quota, Recipe

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
START = at("12:00")
FULL = "No available resources in specified reservations 'train'"


def reserved(ends: datetime | None = None, max_run: timedelta = 24 * HOUR) -> Recipe:
    made = replace(bought(RECIPE, "reserved:train"), zones=ZONES[:1], max_run=max_run)
    return replace(made, reservation_ends_at=ends)


def running(w: World, recipe: Recipe) -> None:
    """A job whose VM is up, and whose command runs."""
    w.submit(recipe=recipe)
    w.settle(minutes=2)
    w.look()
    w.start()
    w.step(passing=True)
    assert w.job().state is JobState.RUNNING, w.job()


def test_a_vm_is_asked_for_by_the_reservations_name(sqlite_url: str) -> None:
    """It has the rate of on demand, so that a ceiling can be kept; its time is what is left of the reservation."""
    with world(sqlite_url) as w:
        running(w, reserved(ends=START + 5 * HOUR))
        (one,) = w.attempts()
        request = w.vm().request
        assert (one.provisioning_model, request.reservation) == (RESERVED, "train")
        assert timedelta(0) <= START + 5 * HOUR - one.intended_at - one.max_run < timedelta(seconds=1)
        assert one.rate is not None


def test_the_guard_keeps_the_limit_of_its_vm(sqlite_url: str) -> None:
    """Google keeps none of a VM that ends with its reservation; the command gets its notice in time to save."""
    with world(sqlite_url) as w:
        running(w, reserved(max_run=HOUR))
        (one,) = w.attempts()
        assert one.made_at is not None
        stops_at = one.made_at + HOUR - w.terms.cancel_grace - 2 * MINUTE
        while w.clock.now() < stops_at - MINUTE:
            w.step(30, passing=True)
            assert not w.beat()
        w.settle(minutes=2)
        assert w.beat(), "the command is asked to stop"
        assert w.attempts()[0].stop_why == "limit"
        now = w.clock.now()
        with w.database.write() as connection:
            job_rows.save_look(connection, "j1", SeenCheckpoint(now, "x", written_at=now, advanced_at=now))
        w.exit(stop_request="cancel", code=143)
        w.settle(minutes=3)
        first, second = w.attempts()
        assert first.outcome is Outcome.TIME_LIMIT
        assert second.provisioning_model is RESERVED


def test_other_vms_keep_the_limit_that_google_has(sqlite_url: str) -> None:
    """Google keeps `maxRunDuration` of them; the guard says nothing."""
    with world(sqlite_url) as w:
        running(w, replace(RECIPE, zones=ZONES[:1], max_run=HOUR))
        while w.clock.now() < START + HOUR + 5 * MINUTE:
            w.step(60, passing=True)
            assert not w.beat()


def test_its_end_is_the_end_of_the_job(sqlite_url: str) -> None:
    """The command is asked to save before Google deletes the VM, and no other VM is asked for."""
    with world(sqlite_url) as w:
        running(w, reserved(ends=START + HOUR))
        while w.clock.now() < START + HOUR - 5 * MINUTE:
            w.step(60, passing=True)
            assert not w.beat()
        w.settle(minutes=3)
        assert w.beat()
        w.shelf.save(100, BUCKET)
        w.exit(stop_request="cancel", code=143)
        w.settle(minutes=3)
        job = w.job()
        assert (job.state, len(w.attempts())) == (JobState.FAILED, 1)
        assert "reservation train ends at 13:00 UTC" in job.reason


def test_it_goes_on_on_demand_where_it_may(sqlite_url: str) -> None:
    """The end of the reservation is not that of a job that falls back to on demand."""
    with world(sqlite_url) as w:
        running(w, replace(reserved(ends=START + HOUR), falls_back_to_on_demand=True))
        while w.clock.now() < START + HOUR - 2 * MINUTE:
            w.step(60, passing=True)
            w.beat()
        w.shelf.save(100, BUCKET)
        w.exit(stop_request="cancel", code=143)
        w.settle(minutes=3)
        first, second = w.attempts()
        assert (first.outcome, second.provisioning_model) == (Outcome.TIME_LIMIT, ProvisioningModel.STANDARD)


def test_a_full_reservation_is_asked_again(sqlite_url: str) -> None:
    """It is no refusal for good: what uses it may end."""
    with world(sqlite_url) as w:
        w.cloud.refusals[ZONES[0]] = FULL
        w.submit(recipe=reserved())
        w.settle(minutes=10)
        job = w.job()
        assert job.state is JobState.QUEUED
        assert "no room on its reservation in 1 zone (us-central1-a); asked again at" in job.reason
        assert {one.outcome for one in w.attempts()} == {Outcome.STOCKOUT}
        w.cloud.refusals.clear()
        w.settle(minutes=30)
        (vm,) = w.cloud.running()
        assert vm.request.reservation == "train"


def test_a_reservation_that_is_gone_is_refused_for_good(sqlite_url: str) -> None:
    """No wait brings it back."""
    with world(sqlite_url) as w:
        w.cloud.refusals[ZONES[0]] = "Specified reservation 'train' does not exist."
        w.submit(recipe=reserved())
        w.settle(minutes=10)
        assert w.job().state is JobState.FAILED


def test_a_deadline_delays_no_vm_on_a_reservation(sqlite_url: str) -> None:
    """A plan weighs Spot, flex-start and on demand; what is reserved is begun at once."""
    with world(sqlite_url) as w:
        w.submit(recipe=reserved(ends=START + 8 * HOUR), deadline=START + 8 * HOUR, work=HOUR)
        w.settle(minutes=2)
        assert w.vm().request.reservation == "train"


def test_its_quota_was_taken_by_the_reservation(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A used-up quota passes no reservation over: it is what used the quota up."""
    with world(sqlite_url) as w:
        metric = "NVIDIA_T4_GPUS"
        monkeypatch.setattr(w.cloud, "quotas", lambda *_: {metric: Quota(metric, 2, 2)})
        w.submit(recipe=reserved())
        w.settle(minutes=2)
        assert w.vm().request.reservation == "train"


@pytest.mark.parametrize(
    ("code", "words", "outcome"),
    [
        ("CONDITION_NOT_MET", FULL, Outcome.STOCKOUT),
        ("RESERVATION_CAPACITY_EXCEEDED", "", Outcome.STOCKOUT),
        ("", "Cannot add VM to a reservation with status: CREATING", Outcome.STOCKOUT),
        ("CONDITION_NOT_MET", "Specified reservation 'train' does not exist.", Outcome.REFUSED),
        ("INVALID_FIELD_VALUE", "can not be targeted as specificReservationRequired is not set", Outcome.REFUSED),
        ("CONDITION_NOT_MET", "Reservation 'train' takes VMs of the provisioning model STANDARD.", Outcome.REFUSED),
        ("RESERVATION_NOT_FOUND", "", Outcome.REFUSED),
    ],
)
def test_what_google_says_of_a_reservation(code: str, words: str, outcome: Outcome) -> None:
    """Words of kubernetes/autoscaler and of skypilot-org/skypilot issue 3327."""
    assert outcome_of(OperationAnswer(True, "", code, words)) is outcome
