"""Jobs on flex-start: a request waits as PENDING and bills nothing, and is granted, refused, given up or deleted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.builders import at
from tests.jobs.act.test_crash_points import copied_database, points_of
from tests.jobs.cloud import never_twice
from tests.jobs.jobbed import MINUTE, NOW, agent, attempt, decided, ended, view
from tests.jobs.lives import Life
from tests.jobs.world import ANA, RECIPE, ZONES, World, world

from costguard.jobs.decide.actions import AskAgain, EndAttempt, LaunchAttempt
from costguard.jobs.decide.limits.holds import BudgetHold
from costguard.jobs.decide.view import AttemptView
from costguard.jobs.rows import job_rows
from costguard.model.attempt import AgentState, Attempt, AttemptState, Outcome
from costguard.model.buying import FLEX, bought
from costguard.model.instance import ProvisioningModel, Status
from costguard.model.job import JobState, SeenCheckpoint
from costguard.model.launch import LONGEST_FLEX_RUN, LONGEST_WAIT, NO_WAIT

HOUR = timedelta(hours=1)
FLEX_RECIPE = replace(bought(RECIPE, "flex"), zones=ZONES[:2])
A, B = ZONES[:2]
BOTH_WAYS = pytest.mark.parametrize("operation_waits", [False, True], ids=["operation done", "operation waits"])


@contextmanager
def flexible(url: str, operation_waits: bool = False, **waits: timedelta | None) -> Iterator[World]:
    """Yields a world in which zone `a` and `b` grant after these waits."""
    with world(url) as w:
        w.cloud.flex_operations_wait = operation_waits
        w.cloud.flex_waits = {{"a": A, "b": B}[name]: wait for name, wait in waits.items()}
        yield w


def only(w: World) -> Attempt:
    (one,) = w.attempts()
    return one


# What is asked for.


@BOTH_WAYS
def test_a_request_waits_and_its_vm_takes_the_job_up_once_it_is_granted(sqlite_url: str, operation_waits: bool) -> None:
    """Queued all the while, with since when and until when; after that as any VM, which runs for seven days at most."""
    with flexible(sqlite_url, operation_waits, a=20 * MINUTE) as w:
        w.submit(recipe=replace(FLEX_RECIPE, max_run=30 * 24 * HOUR))
        w.settle(minutes=5)
        one, job = only(w), w.job()
        assert (one.state, one.made_at, w.vm().status) == (AttemptState.WAITING, None, Status.PENDING)
        assert job.state is JobState.QUEUED
        assert "waits in us-central1-a for a flex-start VM since 12:00 UTC, until 14:00 UTC at the latest" in job.reason
        request = w.vm().request
        assert (request.provisioning_model, request.wait, request.notice) == (FLEX, LONGEST_WAIT, NO_WAIT)
        assert request.max_run == LONGEST_FLEX_RUN
        w.settle(minutes=18)
        assert only(w).state is AttemptState.BOOTING
        w.start()
        w.beat()
        w.step()
        assert (w.job().state, only(w).state) == (JobState.RUNNING, AttemptState.RUNNING)
        w.exit()
        w.settle(minutes=2)
        assert (w.job().state, w.cloud.there()) == (JobState.SUCCEEDED, [])
        never_twice(w.cloud)


def test_a_request_that_may_not_wait_is_granted_at_once_or_fails(sqlite_url: str) -> None:
    """It goes on to the next zone, as with Spot."""
    with flexible(sqlite_url, a=40 * MINUTE) as w:
        w.submit(recipe=replace(FLEX_RECIPE, wait=NO_WAIT))
        w.until_up("cg-j1-2")
        first, second = w.attempts()
        assert (first.zone, first.outcome) == (A, Outcome.STOCKOUT)
        assert (second.zone, second.state, w.vm("cg-j1-2").request.wait) == (B, AttemptState.BOOTING, NO_WAIT)


@BOTH_WAYS
def test_what_is_not_granted_is_asked_for_elsewhere(sqlite_url: str, operation_waits: bool) -> None:
    """Nothing of the first request is left after the whole wait, and its end says how long that was."""
    with flexible(sqlite_url, operation_waits, a=None) as w:
        w.submit(recipe=replace(FLEX_RECIPE, wait=10 * MINUTE))
        w.settle(minutes=9)
        assert only(w).state is AttemptState.WAITING
        w.settle(minutes=4)
        first, second = w.attempts()
        assert (first.outcome, first.state, second.zone) == (Outcome.STOCKOUT, AttemptState.OVER, B)
        assert ("does not have enough resources" if operation_waits else "not granted within 10 min") in first.reason
        assert second.state is AttemptState.BOOTING
        never_twice(w.cloud)


def test_on_demand_is_used_where_no_zone_granted_and_the_recipe_falls_back(sqlite_url: str) -> None:
    """Each zone once, then on demand."""
    with flexible(sqlite_url, a=None, b=None) as w:
        w.submit(recipe=replace(FLEX_RECIPE, falls_back_to_on_demand=True, wait=3 * MINUTE))
        w.settle(minutes=9)
        models = [one.provisioning_model for one in w.attempts()]
        assert models == [FLEX, FLEX, ProvisioningModel.STANDARD]


def test_a_pending_vm_that_somebody_deleted_is_not_taken_for_a_refusal(sqlite_url: str) -> None:
    """It was gone long before its wait was over, and nothing says why: it is asked for again, a little later."""
    with flexible(sqlite_url, a=None, b=None) as w:
        w.submit(recipe=FLEX_RECIPE)
        w.settle(minutes=5)
        w.cloud.remove(w.vm(), ANA)
        w.settle(minutes=2)
        first = w.attempts()[0]
        assert first.outcome is Outcome.LOST
        assert "its request of flex-start was gone after" in first.reason
        w.settle(minutes=5)
        assert w.attempts()[-1].state is AttemptState.WAITING
        never_twice(w.cloud)


# Giving it up.


def test_a_cancel_deletes_the_request_at_once(database_url: str) -> None:
    """There is nothing to wait for: no command runs."""
    with flexible(database_url, a=None) as w:
        w.submit(recipe=FLEX_RECIPE)
        w.settle(minutes=5)
        w.cancel()
        w.settle(minutes=1)
        assert (w.job().state, only(w).outcome, w.cloud.there()) == (JobState.CANCELLED, Outcome.CANCELLED, [])


def test_a_spent_budget_deletes_the_request(sqlite_url: str) -> None:
    """Were it granted, its VM would bill; it is asked for again once there is money."""
    with flexible(sqlite_url, a=None) as w:
        w.submit(recipe=FLEX_RECIPE)
        w.settle(minutes=5)
        w.held = {"j1": BudgetHold("the budget lab is spent")}
        w.settle(minutes=3)
        assert (only(w).outcome, w.cloud.there(), w.job().state) == (Outcome.PAUSED, [], JobState.QUEUED)
        w.held = {}
        w.settle(minutes=10)
        assert w.attempts()[-1].state is AttemptState.WAITING


def test_nothing_begins_while_a_request_that_was_given_up_may_still_be_granted() -> None:
    """The VM counts as a possible writer until it is seen gone: the grant and the delete may cross."""
    given_up = ended(Outcome.STOCKOUT, gone=False, provisioning_model=FLEX, gce_id="70000")
    assert not any(isinstance(one, LaunchAttempt) for one in decided(view(given_up)).actions)
    gone = ended(Outcome.STOCKOUT, provisioning_model=FLEX, gce_id="70000")
    assert any(isinstance(one, LaunchAttempt) for one in decided(view(gone)).actions)
    never = ended(Outcome.STOCKOUT, gone=False, provisioning_model=FLEX, gce_id="")
    assert any(isinstance(one, LaunchAttempt) for one in decided(view(never)).actions)


def test_silence_of_a_vm_that_waits_proves_nothing() -> None:
    """It does not run: neither its boot nor its agent is late."""
    waits = attempt(
        AttemptState.WAITING, provisioning_model=FLEX, made_at=None, asked_at=at("10:10"), intended_at=at("10:10"),
        agent=AgentState(), gce_id="70000", try_after=NOW + MINUTE,
    )  # fmt: skip
    made = decided(view(waits))
    assert (made.actions, made.next_at) == ((), NOW + MINUTE)
    (look,) = decided(view(replace(waits, try_after=NOW))).actions
    assert isinstance(look, AskAgain)


def test_a_standby_that_waits_is_left_waiting_until_its_job_gives_it_up() -> None:
    """The command runs on meanwhile, and a cancel deletes the request."""
    waits = attempt(
        AttemptState.WAITING, 2, provisioning_model=FLEX, made_at=None, asked_at=at("11:10"),
        intended_at=at("11:10"), agent=AgentState(), gce_id="7", follows=1, try_after=NOW + MINUTE,
    )  # fmt: skip
    trains = view(attempt(agent=agent(started_at=at("09:00"))))
    moving = replace(trains, standby=AttemptView(waits))
    assert decided(moving).actions == ()
    cancelled = replace(moving, job=replace(moving.job, cancel_asked_at=NOW, cancel_asked_by=ANA))
    ends = [one for one in decided(cancelled).actions if isinstance(one, EndAttempt)]
    assert [one.attempt_id for one in ends] == [waits.id]


# Its end.


def test_the_next_vm_is_asked_for_before_google_ends_this_one(sqlite_url: str) -> None:
    """Seven days at most: a request that may wait for two hours is made in time, and takes over after a checkpoint."""
    with flexible(sqlite_url, a=20 * MINUTE) as w:
        w.submit(recipe=replace(FLEX_RECIPE, max_run=4 * HOUR))
        w.settle(minutes=22, every=30)
        w.start()
        for _ in range(8):
            w.beat()
            w.settle(minutes=8, every=60)
        assert len(w.attempts()) == 1, "it ends in 2 h 54 min"
        for _ in range(3):
            w.beat()
            w.settle(minutes=8, every=60)
        ready, first = w.attempts()
        assert (ready.number, ready.follows, ready.state) == (2, 1, AttemptState.WAITING)
        assert first.state is AttemptState.RUNNING
        for _ in range(3):
            w.beat()
            w.settle(minutes=8, every=60)
        w.stand_by()
        w.shelf.save(100)
        with w.database.write() as connection:
            now = w.clock.now()
            job_rows.save_look(connection, "j1", SeenCheckpoint(now, "x", written_at=now, advanced_at=now))
        w.beat()
        w.settle(minutes=1)
        assert w.beat(), "the first one is asked to stop"
        w.exit(stop_request="cancel")
        w.settle(minutes=2)
        assert [one.outcome for one in w.attempts()] == [Outcome.MOVED, None]
        w.stand_by()
        assert w.outside.go["cg-j1-2"].resume_from.endswith("checkpoint-100")
        never_twice(w.cloud)


# Whatever happens to the guard.


@BOTH_WAYS
@pytest.mark.parametrize("granted_after", [MINUTE, None], ids=["granted", "not granted"])
def test_guard_ended_at_any_step_makes_no_vm_twice_and_forgets_none(
    tmp_path: Path, sqlite_template: Path, operation_waits: bool, granted_after: timedelta | None
) -> None:
    """A job whose first zone makes it wait, with the process ended at each point and played on from there."""
    path = tmp_path / "costguard.db"
    with copied_database(path, sqlite_template) as database:
        life = Life(World(database).begin(), lambda _life, _machine: None)
        life.world.cloud.flex_operations_wait = operation_waits
        life.world.cloud.flex_waits = {A: granted_after}
        life.world.submit(recipe=replace(FLEX_RECIPE, wait=2 * MINUTE))
        assert points_of(life, path, JobState.SUCCEEDED, every=5) > 10
