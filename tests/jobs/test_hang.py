"""A command that hangs: its owner is notified once, and it runs again where the job said so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.jobs.reports.test_agent_report import agent, event
from tests.jobs.world import World, world

from costguard.model.attempt import Outcome
from costguard.model.job import CheckpointPlan, JobState, OnHang
from costguard.model.money import Money
from costguard.model.reported.hang import Hang

HANG: dict[str, Any] = {
    "kind": "still",
    "phase": "training",
    "since": "2026-11-21T10:00:00+00:00",
    "bound_s": 300.0,
    "silent_s": 310.0,
    "usual_s": 4.02,
    "longest_s": 12.5,
    "cores": 0.013,
    "gpu": 0.0,
    "is_writing": False,
    "step": 4100,
    "waits": ["9 x python sleeping in futex_wait_queue"],
}


def hanging(w: World, name: str = "cg-j1-1", step: int | None = 4100, **hang: Any) -> bool:
    """A heartbeat with a hang of six minutes."""
    since = (w.clock.now() - timedelta(minutes=6)).isoformat()
    fields = {"is_running": True, "step": step, "output": f"step {step}", "hang": {**HANG, "since": since, **hang}}
    return w.say(name, ("heartbeat", fields))


def at_work(w: World, **given: Any) -> None:
    w.submit(**given)
    w.until_up("cg-j1-1")
    w.start()
    w.step()


def test_a_hang_is_kept_until_the_next_step() -> None:
    """A hang begins at its first report; a heartbeat without it ends it."""
    first = agent(event(1, "start"), event(2, "heartbeat", is_running=True, hang=HANG)).agent
    assert first.hang is not None
    assert (first.hang.kind, first.hang.bound, first.hang.step) == ("still", timedelta(minutes=5), 4100)
    assert first.hang.text == (
        "no processor, GPU, disk or output moves (0.01 processors at work, GPU at 0%); "
        "its steps come every 4 s, at most 12 s apart"
    )
    later = {**HANG, "since": "2026-11-21T10:00:03+00:00"}
    second = agent(event(3, "heartbeat", is_running=True, hang=later), before=first).agent
    assert second.hang is not None
    assert second.hang.since == first.hang.since
    assert agent(event(4, "heartbeat", is_running=True), before=second).agent.hang is None
    assert agent(event(5, "exit", reason="exited", code=0), before=second).agent.hang is None


@pytest.mark.parametrize(
    "odd",
    [7, [], {}, {**HANG, "kind": "dead"}, {**HANG, "phase": 3}, {**HANG, "bound_s": -1}, {**HANG, "bound_s": "300"}],
)
def test_what_is_no_hang_is_left_out(odd: object) -> None:
    """Malformed hangs are left out, whatever a VM sends."""
    assert agent(event(1, "heartbeat", hang=odd)).agent.hang is None


def test_what_a_vm_sends_is_cut() -> None:
    """Stacks, waits and figures are bounded."""
    sent = {**HANG, "stacks": "x" * 100_000, "waits": ["y" * 1000] * 100, "cores": float("inf"), "step": -1}
    hang = agent(event(1, "heartbeat", hang=sent)).agent.hang
    assert isinstance(hang, Hang)
    assert len(hang.stacks) == 8192
    assert [len(one) for one in hang.waits] == [100] * 8
    assert hang.cores is None
    assert hang.step is None


def test_the_owner_is_notified_once_of_a_hang_and_of_its_end(sqlite_url: str) -> None:
    """The message has the step, the silence and its evidence, and the cost of an hour."""
    with world(sqlite_url) as w:
        at_work(w)
        assert not hanging(w)
        w.clock.advance(timedelta(minutes=1))
        assert not hanging(w)
        (reported,) = w.events("JobHangs")
        assert "after step 4,100 (6 min, and 5 min were to be expected at most). No processor, GPU" in reported.text
        assert "It costs about $" in reported.text
        w.step()
        assert "it seems to hang: no progress since" in w.job().reason
        w.clock.advance(timedelta(minutes=1))
        w.beat(step=4101)
        (over,) = w.events("JobGoesOn")
        assert "makes progress again in" in over.text
        w.step()
        assert "hang" not in w.job().reason
        w.clock.advance(timedelta(hours=1))
        hanging(w)
        assert len(w.events("JobHangs")) == 2


def test_a_hang_alone_stops_nothing(sqlite_url: str) -> None:
    """The owner decides, unless the job said otherwise."""
    with world(sqlite_url) as w:
        at_work(w)
        for _ in range(20):
            w.clock.advance(timedelta(minutes=1))
            assert not hanging(w)
            w.step()
        assert w.job().state is JobState.RUNNING
        assert len(w.events("JobHangs")) == 1


def test_a_job_that_wants_it_runs_again_from_its_newest_checkpoint(sqlite_url: str) -> None:
    """The command is stopped, its VM goes, and the next resumes; never are there two VMs."""
    with world(sqlite_url) as w:
        at_work(w, on_hang=OnHang.RESTART)
        w.shelf.save(4000)
        hanging(w)
        w.step()
        assert hanging(w), "the agent hears that the command has to stop"
        w.exit(code=-9, stop_request="hang")
        for _ in range(20):
            w.step(10)
            assert len(w.cloud.running()) <= 1
        w.until_up("cg-j1-2")
        first, second = w.attempts()
        assert first.outcome is Outcome.CRASHED
        assert first.reason == "the command made no progress, and was stopped to run again"
        assert second.resume_step == 4000
        assert not w.is_up("cg-j1-1")


def test_a_command_that_hangs_again_and_again_fails(sqlite_url: str) -> None:
    """Each restart counts as a crash of the job's limit."""
    with world(sqlite_url) as w:
        at_work(w, on_hang=OnHang.RESTART, max_crashes=1, ceiling=Money.of("1000"))
        hanging(w)
        w.step()
        w.exit(code=-9, stop_request="hang")
        w.until_up("cg-j1-2")
        w.start("cg-j1-2")
        w.step()
        hanging(w, "cg-j1-2")
        w.step()
        w.exit("cg-j1-2", code=-9, stop_request="hang")
        w.settle(minutes=2)
        assert w.job().state is JobState.FAILED
        assert "it was crash 2, and 1 were allowed" in w.job().reason
        assert w.cloud.running() == []


@pytest.mark.parametrize(
    ("code", "minutes"),
    [(-9, spans) for spans in ((20,), (2,), (20, 2), (2, 2, 20), (0, 0, 20))]
    + [(0, (2,)), (0, (20, 2)), (None, (2,)), (None, (0, 0, 20))],
    ids=lambda value: (
        {-9: "killed", 0: "leaves with 0", None: "says nothing"}.get(value)
        if not isinstance(value, tuple)
        else "-".join(map(str, value))
    ),
)
def test_a_command_that_always_hangs_buys_few_vms(sqlite_url: str, code: int | None, minutes: tuple[int, ...]) -> None:
    """The number of VMs is bounded however it ends, soon after a resume or late, and though it saves something new each
    time.
    """
    with world(sqlite_url) as w:
        w.submit(on_hang=OnHang.RESTART, ceiling=Money.of("1000"))
        for number in range(1, 20):
            name = f"cg-j1-{number}"
            w.until_up(name, turns=200)
            w.start(name)
            w.shelf.save(1000 * number)
            span = minutes[number % len(minutes)]
            for minute in range(span):
                w.beat(name, step=1000 * number + minute)
                w.step(60)
            while w.attempts()[-1].is_open:
                is_asked = hanging(w, name, 1000 * number if span else None)
                if is_asked and code is not None:
                    w.exit(name, code=code, stop_request="hang")
                w.step(30)
            w.settle(minutes=1)
            if w.job().state is JobState.FAILED:
                break
        assert w.job().state is JobState.FAILED
        assert len(w.attempts()) <= 4  # its first, and three restarts
        assert w.cloud.running() == []


def test_a_cancel_comes_before_a_restart(sqlite_url: str) -> None:
    """A cancelled job that hangs gets no other VM."""
    with world(sqlite_url) as w:
        at_work(w, on_hang=OnHang.RESTART)
        hanging(w)
        w.step()
        w.cancel()
        w.step()
        w.exit(code=-9, stop_request="hang")
        w.settle(minutes=2)
        assert w.job().state is JobState.CANCELLED
        assert len(w.attempts()) == 1


def test_a_job_on_its_vms_own_disk_is_restarted_on_it(sqlite_url: str) -> None:
    """The disk holds the checkpoints: the same VM is stopped and started again."""
    with world(sqlite_url) as w:
        at_work(w, on_hang=OnHang.RESTART, checkpoint=CheckpointPlan("/data/run"))
        hanging(w)
        w.step()
        w.exit(code=-9, stop_request="hang")
        w.settle(minutes=4)
        (only,) = w.attempts()
        assert only.restarts == 1


def test_an_agent_that_reports_no_end_is_not_waited_for(sqlite_url: str) -> None:
    """The VM of a command that cannot be killed goes, and the job goes on elsewhere."""
    with world(sqlite_url) as w:
        at_work(w, on_hang=OnHang.RESTART)
        hanging(w)
        w.step()
        for _ in range(30):
            w.step(10)
            if w.attempts()[0].is_open:
                hanging(w)
        w.until_up("cg-j1-2")
        assert w.attempts()[0].outcome is Outcome.CRASHED
