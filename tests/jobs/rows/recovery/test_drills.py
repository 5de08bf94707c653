"""Drills of jobs: requested, delivered, heard of, and settled whatever happens meanwhile."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.builders import at
from tests.jobs.job_service import JobSetup, asked
from tests.jobs.world import World, world

from costguard.db.transaction import Database
from costguard.errors import Conflict, Forbidden, Invalid
from costguard.jobs.reports.agent_events import AgentEvent
from costguard.jobs.rows.agent_fields import drill_report
from costguard.jobs.rows.recovery import drills
from costguard.model.job import CheckpointPlan, JobKind, JobState
from costguard.model.reported.drill import Drill, DrillResult, DrillState, in_words

PLAN = CheckpointPlan("gs://lab/run", "--from {checkpoint}", local="/data/out")
EVE = "eve@lab.example"


@pytest.fixture
def office(sqlite_database: Database) -> JobSetup:
    return JobSetup(sqlite_database)


def test_a_drill_is_stored_once(office: JobSetup) -> None:
    """A drill is requested by the owner or a person who may act for them; another one only after its end."""
    office.it.submit(asked(checkpoint=PLAN), None, "api")
    with pytest.raises(Forbidden, match="can drill it"):
        office.it.drill("j1", EVE)
    _, drill = office.it.drill("j1", "ada@lab.example")
    assert (drill.number, drill.state) == (1, DrillState.WAITING)
    with pytest.raises(Conflict, match="not over yet"):
        office.it.drill("j1", "ada@lab.example")


def test_what_saves_nowhere_cannot_be_drilled(office: JobSetup) -> None:
    """A development VM cannot be drilled either: its command is its owner's."""
    office.it.submit(asked(), None, "api")
    office.it.submit(asked(kind=JobKind.DEV, command=()), None, "api")
    with pytest.raises(Conflict, match="no location for its checkpoints"):
        office.it.drill("j1", "ada@lab.example")
    with pytest.raises(Conflict, match="development VM"):
        office.it.drill("j2", "ada@lab.example")
    with pytest.raises(Invalid, match="nothing to drill"):
        office.it.submit(asked(drill=True), None, "api")


def test_a_job_can_be_launched_with_a_drill(office: JobSetup) -> None:
    """It is stored with the job."""
    office.it.submit(asked(checkpoint=PLAN, drill=True), None, "api")
    with office.database.read() as connection:
        assert [one.number for one in drills.of_job(connection, "j1")] == [1]


def _request(w: World) -> None:
    with w.database.write() as connection:
        assert drills.add(connection, w.job(), "ana@example.com", w.clock.now()) is not None


def _only(w: World) -> Drill:
    with w.database.read() as connection:
        (drill,) = drills.of_job(connection, "j1")
    return drill


def _wanted(w: World, name: str = "cg-j1-1") -> int | None:
    """Returns the drill that the answer to its agent's next report requests."""
    seq = w.outside.seq.get(name, 0) + 1
    w.outside.seq[name] = seq
    event = AgentEvent(seq, "heartbeat", w.clock.now(), {"run": 1, "is_running": True})
    return w.hearing.hear(name, w.tokens.of(name), [event]).drill


def _running(w: World, name: str = "cg-j1-1") -> None:
    w.until_up(name)
    w.start(name)
    w.step()


def test_a_drill_is_asked_for_until_its_end_is_known(sqlite_url: str) -> None:
    """A restarted guard asks for it too; the job never stops running, and nothing counts as interrupted."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        assert _wanted(w) is None
        _request(w)
        assert _wanted(w) == 1
        w.say("cg-j1-1", ("drill", {"number": 1, "phase": "stopping", "grace_s": 22, "step": 9}))
        w.guard()
        assert _wanted(w) == 1
        over = {"number": 1, "phase": "over", "result": "saved", "resumed": "yes", "saved_s": 3.25, "saved_step": 540}
        w.say("cg-j1-1", ("drill", over), ("drill", {**over, "result": "torn"}))
        assert _wanted(w) is None
        drill = _only(w)
        assert (drill.result, drill.saved, drill.step) == (DrillResult.SAVED, timedelta(seconds=3.25), 540)
        w.settle(2)
        assert w.job().state is JobState.RUNNING
        assert w.interruptions() == []
        (event,) = w.events("DrillEnded")
        assert "was saved at step 540 on the notice after 3.2 s" in event.text


def test_a_drill_on_a_vm_that_ends_is_interrupted(sqlite_url: str) -> None:
    """It shows nothing, and the preemption counts as one."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        _request(w)
        w.say("cg-j1-1", ("drill", {"number": 1, "phase": "stopping"}))
        w.notice()
        w.cloud.preempt(w.vm())
        w.exit(stop_request="preemption")
        w.step()
        assert _only(w).result is DrillResult.INTERRUPTED
        assert len(w.interruptions()) == 1
        _running(w, "cg-j1-2")
        assert _wanted(w, "cg-j1-2") is None


def test_a_drill_that_still_waits_is_held_on_the_next_vm(sqlite_url: str) -> None:
    """An agent that had only taken note of the drill leaves it to the next VM."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        _request(w)
        w.say("cg-j1-1", ("drill", {"number": 1, "phase": "waiting"}))
        w.notice()
        w.cloud.preempt(w.vm())
        w.exit(stop_request="preemption")
        w.step()
        _running(w, "cg-j1-2")
        assert _wanted(w, "cg-j1-2") == 1


def test_a_job_that_ends_before_its_drill_gives_it_up(sqlite_url: str) -> None:
    """A drill of an ended job is given up, so that none is open for ever."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        _request(w)
        w.exit()
        w.settle(1)
        assert w.job().state is JobState.SUCCEEDED
        assert _only(w).result is DrillResult.NOT_HELD


@pytest.mark.parametrize(
    "fields",
    [
        {"number": True, "phase": "over", "result": "saved"},
        {"number": 2, "phase": "over", "result": "saved"},
        {"number": 1, "phase": "over", "result": "not_held"},
        {"number": 1, "phase": "over"},
        {"number": 1, "phase": "flying"},
        {"number": 10**30, "phase": "over", "result": "saved"},
    ],
)
def test_what_an_agent_cannot_know_is_not_believed(sqlite_url: str, fields: dict[str, object]) -> None:
    """A number that no one requested is ignored too: the drill stays open."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        _request(w)
        w.say("cg-j1-1", ("drill", fields))
        assert _only(w).result is None


def test_notices_are_counted_with_announced_preemptions(sqlite_url: str) -> None:
    """A drill that was saved, and a preemption after which nothing newer than the notice was found."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        _request(w)
        w.say("cg-j1-1", ("drill", {"number": 1, "phase": "over", "result": "saved"}))
        w.clock.advance(timedelta(minutes=10))
        w.shelf.save(100)
        w.clock.advance(timedelta(minutes=5))
        w.notice()
        w.cloud.preempt(w.vm())
        w.exit(stop_request="preemption")
        w.settle(1)
        with w.database.read() as connection:
            counts = drills.saved_on_notice(drills.of_job(connection, "j1"), w.interruptions())
        assert counts.text == "saved on notice 1 of 2 times"


SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"saved": 3 * SECOND, "goes_on": "yes"}, "c was saved at step 9 on the notice after 3.0 s of 22 s"),
        ({"result": DrillResult.TOO_LATE, "saved": 41 * SECOND}, "c was saved at step 9 too late, 41 s after the"),
        ({"result": DrillResult.TOO_LATE, "saved": 4 * SECOND}, "and its upload had not ended in time"),
        ({"result": DrillResult.TORN, "why": "no marker."}, "c was left incomplete (no marker)"),
        ({"result": DrillResult.NEVER, "checkpoint": "", "was_killed": True}, "the command did not end by itself"),
        ({"result": DrillResult.NOT_RESUMED, "goes_on": "no"}, "the command did not go on from it"),
    ],
)
def test_a_drill_in_words(fields: dict[str, object], text: str) -> None:
    """The text says what happened, with its seconds."""
    values = {"result": DrillResult.SAVED, "checkpoint": "c", "step": 9, "grace": 22 * SECOND, **fields}
    drill = Drill("j1", 1, at("12:00"), "ada@lab.example", DrillState.OVER, **values)  # type: ignore[arg-type]
    assert text in in_words(drill)


def test_another_attempt_settles_no_drill(sqlite_url: str) -> None:
    """While a job moves it has two VMs, and one of them holds the drill."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        _request(w)
        w.say("cg-j1-1", ("drill", {"number": 1, "phase": "stopping"}))
        over = drill_report({"number": 1, "phase": "over", "result": "saved"}, lambda _: w.clock.now())
        (attempt,) = w.attempts()
        assert over is not None
        with w.database.write() as connection:
            drills.hear(connection, "j1", attempt.id + 1, [over], w.clock.now())
        assert _only(w).result is None
        with w.database.write() as connection:
            drills.hear(connection, "j1", attempt.id, [over], w.clock.now())
        assert _only(w).result is DrillResult.SAVED


def test_a_command_that_saved_and_did_not_go_on_has_not_passed(sqlite_url: str) -> None:
    """A preemption that is called off would end it."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        _request(w)
        w.say("cg-j1-1", ("drill", {"number": 1, "phase": "over", "result": "saved", "resumed": "no"}))
        assert _only(w).result is DrillResult.NOT_RESUMED


def test_a_length_beyond_all_measure_is_unknown() -> None:
    """An agent may send an integer that no float can hold."""
    fields = {"number": 1, "phase": "stopping", "grace_s": 10**400, "saved_s": 3.5004}
    report = drill_report(fields, lambda _: at("10:00"))
    assert report is not None
    assert (report.grace, report.saved) == (None, timedelta(seconds=3.5))
