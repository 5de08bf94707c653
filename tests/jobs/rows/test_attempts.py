"""Attempts are intended once, change from expected states alone, and are found by whatever names their VM."""

from __future__ import annotations

from datetime import timedelta

from tests.api.rows import NOW
from tests.jobs import job_rows

from costguard.db.transaction import Database
from costguard.jobs.rows import agent_rows, attempts
from costguard.jobs.rows.attempts import Changes, JobVm
from costguard.jobs.rows.history import place_rows
from costguard.jobs.rows.history.place_rows import PlaceOutcome
from costguard.jobs.rows.recovery import interruptions
from costguard.model.attempt import AgentState, AttemptState, Exit, Interruption, Notice, Outcome
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money

MINUTE = timedelta(minutes=1)


def test_a_number_is_taken_once(database: Database) -> None:
    """The attempt that was intended first stands, and comes back whole."""
    with database.write() as connection:
        job_rows.added(connection)
        first = job_rows.attempt(connection, resume_from="checkpoint-10", resume_step=10)
        assert attempts.intend(connection, job_rows.new_attempt(zone="us-central1-b")) is None
        assert attempts.by_name(connection, "lab", "cg-j7k2m9q4-1") == first
        assert attempts.called(connection, "cg-j7k2m9q4-1") == (first, False)
        assert attempts.called(connection, "cg-j7k2m9q4-2") is None
    assert (first.zone, first.rate, first.max_run) == ("us-central1-a", Money.of("0.25"), timedelta(hours=24))
    assert (first.resume_from, first.resume_step, first.state) == ("checkpoint-10", 10, AttemptState.INTENDED)


def test_a_change_is_made_from_expected_states_alone(database: Database) -> None:
    """A change from another state changes nothing, and fields that it does not name stay; attempts that are over are
    not live.
    """
    with database.write() as connection:
        job_rows.added(connection)
        attempt = job_rows.attempt(connection)
        changes: Changes = {"state": AttemptState.ASKED, "operation": "op", "asked_at": NOW, "tries": 2}
        assert attempts.change(connection, attempt.id, [AttemptState.INTENDED], **changes)
        assert not attempts.change(connection, attempt.id, [AttemptState.INTENDED], gce_id="7")
        ended: Changes = {"rate": None, "max_run": timedelta(hours=1), "outcome": Outcome.LOST, "reason": "gone\0"}
        assert attempts.change(connection, attempt.id, list(AttemptState), **ended)
        (live,) = attempts.live(connection)
        assert (live.state, live.operation, live.asked_at, live.tries) == (AttemptState.ASKED, "op", NOW, 2)
        assert (live.rate, live.max_run, live.outcome) == (None, timedelta(hours=1), Outcome.LOST)
        assert live.reason == "gone\N{REPLACEMENT CHARACTER}"
        attempts.change(connection, attempt.id, [AttemptState.ASKED], state=AttemptState.OVER)
        assert attempts.live(connection) == []
        assert [item.number for item in attempts.of_jobs(connection, ["j7k2m9q4", "x"])["j7k2m9q4"]] == [1]


def test_what_is_heard_is_kept(database: Database) -> None:
    """Long texts are read of one attempt alone, and stay where the agent had nothing new to show."""
    agent = AgentState(
        at=NOW,
        run=2,
        booted_at=NOW,
        started_at=NOW,
        step=7,
        machine={"cpu": 0.5},
        output="epoch 1\0",
        exit=Exit("exited", NOW, code=1),
        accepted_through=9,
    )
    with database.write() as connection:
        job_rows.added(connection)
        attempt = job_rows.attempt(connection, state=AttemptState.BOOTING)
        agent_rows.hear(connection, attempt.id, agent, AttemptState.RUNNING)
        agent_rows.hear(connection, attempt.id, AgentState(at=NOW + MINUTE, accepted_through=10))
        read, (live,) = attempts.read(connection, attempt.id), attempts.live(connection)
    assert read is not None
    assert (read.state, read.agent.at, read.agent.exit) == (AttemptState.RUNNING, NOW + MINUTE, None)
    assert (read.agent.output, read.agent.machine) == ("epoch 1\N{REPLACEMENT CHARACTER}", {"cpu": 0.5})
    assert (live.agent.output, live.agent.machine, live.agent.accepted_through) == ("", {}, 10)


def test_the_vm_of_an_attempt_is_found_by_id_and_by_name(database: Database) -> None:
    """Each attempt is found once within its project, with its owner."""
    with database.write() as connection:
        job_rows.added(connection)
        one = job_rows.attempt(connection, gce_id="71")
        two = job_rows.attempt(connection, number=2, state=AttemptState.OVER)
        result = attempts.of_instances(connection, "lab", ["71", "", "99"], [one.name, two.name, "other"])
        assert attempts.of_instances(connection, "elsewhere", ["71"], [one.name]) == []
    place = "us-central1-a"
    assert sorted(result, key=lambda vm: vm.attempt_id) == [
        JobVm(one.id, "j7k2m9q4", "ada@lab.example", one.name, place, "71", True, one.request_uuid),
        JobVm(two.id, "j7k2m9q4", "ada@lab.example", two.name, place, "", False, two.request_uuid),
    ]


def test_an_interruption_counts_once_and_is_resumed_by_a_later_run(database: Database) -> None:
    """A run does not resume its own interruption; places see each event once, however it was written down."""
    with database.write() as connection:
        job_rows.added(connection)
        one = job_rows.attempt(connection)
        two = job_rows.attempt(connection, number=2, zone="us-central1-b")

        def interruption(attempt_id: int, run: int, happened: int) -> Interruption:
            moment = NOW + happened * MINUTE
            lost = timedelta(minutes=4), Money(9)
            return Interruption(
                attempt_id, "j7k2m9q4", run, Outcome.PREEMPTED, moment, moment, Notice.NOTICE, None, None, *lost
            )

        first, second, third = interruption(one.id, 1, 1), interruption(one.id, 2, 2), interruption(two.id, 1, 5)
        assert all(interruptions.add(connection, item) for item in (first, second, third))
        assert not interruptions.add(connection, interruption(one.id, 1, 4))
        assert interruptions.of_jobs(connection, ["j7k2m9q4"]) == {"j7k2m9q4": [first, second, third]}
        assert interruptions.newest_interruptions(connection, NOW + 2 * MINUTE, 9) == [third, second]
        assert interruptions.set_requested(connection, "j7k2m9q4", NOW + 6 * MINUTE) == 3
        assert interruptions.set_resumed(connection, "j7k2m9q4", two.id, 1, NOW + 7 * MINUTE) == 2
        assert interruptions.set_resumed(connection, "j7k2m9q4", two.id, 2, NOW + 8 * MINUTE) == 1
        interruptions.set_lost(connection, two.id, 1, MINUTE, None, True)
        *_, last = interruptions.of_jobs(connection, ["j7k2m9q4"])["j7k2m9q4"]
        assert (last.requested_at, last.resumed_at) == (NOW + 6 * MINUTE, NOW + 8 * MINUTE)
        assert (last.lost, last.lost_cost, last.from_zero) == (MINUTE, None, True)
        agent_rows.hear(connection, one.id, AgentState(run=2))
        attempts.change(connection, one.id, list(AttemptState), outcome=Outcome.PREEMPTED, ended_at=NOW + 3 * MINUTE)
        recent = place_rows.recent(connection, NOW)
    spot = "nvidia-tesla-t4", ProvisioningModel.SPOT, Outcome.PREEMPTED
    assert recent == [
        PlaceOutcome("us-central1-a", *spot, NOW + MINUTE),
        PlaceOutcome("us-central1-a", *spot, NOW + 3 * MINUTE),
        PlaceOutcome("us-central1-b", *spot, NOW + 5 * MINUTE),
    ]
