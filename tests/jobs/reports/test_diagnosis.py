"""Agents' minutes become verdicts, savings, and one event for each bound."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from tests.jobs.world import World, world

from costguard.jobs.decide.machines.bound_savings import next_larger, promised, script_of, time_left
from costguard.jobs.reports import diagnosis
from costguard.jobs.reports.diagnosis import JobDiagnosis
from costguard.jobs.rows.agent_fields import MOST_MINUTES, JudgedWindow, MeasuredMinute
from costguard.jobs.rows.diagnosis import diagnosis_rows
from costguard.jobs.rows.diagnosis.diagnosis_rows import NewWindow
from costguard.ledger.accrual import accrual_at
from costguard.model.instance import Shape
from costguard.model.money import Money
from costguard_sandbox.gce.catalogue import machine_types
from costguard_vm.diagnosis import kinds
from costguard_vm.diagnosis.kinds import BoundVerdict
from costguard_vm.diagnosis.signals import CommandSignals, GpuSignals, HostSignals, Minute, StackSignals, as_json

MINUTE = timedelta(minutes=1)
STARVED = Minute(
    seconds=60.0,
    gpus=(GpuSignals(kernel_active=0.4),),
    command=CommandSignals(main_cpu=0.1, workers=2.0, workers_cpu=1.9, workers_busiest=0.95, cpu=2.0, queue=0.0),
    host=HostSignals(cpus=12.0, cpu=2.1),
    stacks=StackSignals(looks=30.0, places={"loader": 0.9, "host": 0.1}),
)
BUSY = STARVED._replace(gpus=(GpuSignals(kernel_active=0.98),))


def minutes_of(w: World, count: int, minute: Minute = STARVED, name: str = "cg-j1-1", pace: int = 60) -> None:
    """Makes minutes of a training that makes `pace` steps in each."""
    for _ in range(count):
        w.clock.advance(MINUTE)
        step = (w.attempts(_job(name))[-1].agent.step or 0) + pace
        w.beat(name, step=step)
        w.say(name, ("activity", {"run": 1, "minute": as_json(minute)}))


def _job(attempt: str) -> str:
    return attempt.split("-")[1]


def _diagnosis(w: World, job_id: str = "j1") -> JobDiagnosis:
    with w.database.read() as connection:
        answer = diagnosis.diagnosis_of(connection, accrual_at(connection, w.clock.now()), job_id)
    assert answer is not None
    return answer


def running_job(w: World, job_id: str = "j1", **given: Any) -> None:
    w.submit(job_id, **given)
    w.until_up(f"cg-{job_id}-1")
    w.start(f"cg-{job_id}-1")
    w.step()


def test_diagnosis_of_a_command_that_ended_awaits_no_activity(sqlite_url: str) -> None:
    """While it runs, a report is due within a minute; after it, none comes any more."""
    with world(sqlite_url) as w:
        running_job(w)
        assert "has reported no activity yet" in _diagnosis(w).why_none
        w.exit()
        w.settle()
        assert _diagnosis(w).why_none.startswith("Its command ended before its agent had reported any activity")


def test_two_equal_windows_are_needed_before_a_verdict_holds(sqlite_url: str) -> None:
    """The first two minutes are warm-up, each window is of five: eleven minutes say nothing, twelve do, once."""
    with world(sqlite_url) as w:
        running_job(w)
        minutes_of(w, 11)
        assert _diagnosis(w).held is None
        assert w.events("JobBoundFound") == []
        minutes_of(w, 1)
        held = _diagnosis(w).held
        assert held is not None
        assert (held.verdict.bound, held.verdict.cause, held.windows) == (kinds.INPUT, kinds.WORKERS, 2)
        minutes_of(w, 10)
        assert len(w.events("JobBoundFound")) == 1


def test_a_verdict_that_comes_and_goes_is_announced_once(sqlite_url: str) -> None:
    """The owner is notified the first time; a busy GPU is no news at all."""
    with world(sqlite_url) as w:
        running_job(w)
        for minute in (STARVED, BUSY, STARVED):
            minutes_of(w, 13, minute)
        assert [event.data["bound"] for event in w.events("JobBoundFound")] == ["input"]
        assert {one.verdict.bound for one in _diagnosis(w).stretches} >= {kinds.INPUT, kinds.GPU}


def test_what_is_saved_is_up_to_the_waiting_of_what_is_left(sqlite_url: str) -> None:
    """60 % of the hours that its steps still take at their present pace, at the price of its VM."""
    with world(sqlite_url) as w:
        running_job(w, total_steps=60 * 13 + 3600)
        minutes_of(w, 13)
        saving, rate = _diagnosis(w).saving, w.attempts()[-1].rate
        assert saving is not None
        assert rate is not None
        assert saving.share == pytest.approx(0.6)
        assert saving.total == saving.per_hour == Money(rate.nanos * 600_000 // 1_000_000)
        (event,) = w.events("JobBoundFound")
        assert "up to $" in event.text
        assert "2.0 of 12 vCPUs are used" in event.text


def test_nothing_is_promised_where_the_time_left_is_unknown(sqlite_url: str) -> None:
    """The saving of an hour alone is known."""
    with world(sqlite_url) as w:
        running_job(w)
        minutes_of(w, 13)
        saving = _diagnosis(w).saving
        assert saving is not None
        assert saving.total is None
        assert "of each hour" in w.events("JobBoundFound")[0].text


def test_minutes_of_a_warm_up_are_not_judged(sqlite_url: str) -> None:
    """The first two of a run with steps: loading and compiling look like waiting for data, and are over soon."""
    with world(sqlite_url) as w:
        running_job(w)
        began = w.clock.now()
        minutes_of(w, 2, STARVED)
        minutes_of(w, 15, BUSY)
        [stretch] = _diagnosis(w).stretches
        assert stretch.since >= began + 2 * MINUTE
        assert (stretch.verdict.bound, stretch.windows) == (kinds.GPU, 3)


def test_an_hour_of_minutes_is_kept(sqlite_url: str) -> None:
    """A run of months must not fill the database."""
    with world(sqlite_url) as w:
        running_job(w)
        minutes = [MeasuredMinute(1, w.clock.now() + number * MINUTE, BUSY) for number in range(MOST_MINUTES + 15)]
        with w.database.write() as connection:
            diagnosis_rows.add_minutes(connection, {w.attempts()[-1].id: minutes})
        assert [one.at for one in _diagnosis(w).minutes] == [one.at for one in minutes[15:]]


def test_a_window_has_no_gap(sqlite_url: str) -> None:
    """Minutes before and after an hour without reports are of different times."""
    with world(sqlite_url) as w:
        running_job(w)
        minutes_of(w, 6)
        w.clock.advance(timedelta(hours=1))
        minutes_of(w, 4)
        assert _diagnosis(w).stretches == []
        minutes_of(w, 1)
        assert len(_diagnosis(w).stretches) == 1


def test_verdicts_that_take_turns_do_not_fill_the_database(sqlite_url: str) -> None:
    """A job keeps its newest stretches alone."""
    with world(sqlite_url) as w:
        running_job(w)
        with w.database.write() as connection:
            attempt = w.attempts()[-1]
            for number in range(diagnosis_rows.MOST_STRETCHES + 7):
                window = _window(w, kinds.INPUT if number % 2 else kinds.HOST)
                diagnosis_rows.add_windows(connection, [NewWindow("j1", attempt.id, 1, window)])
        assert len(_diagnosis(w).stretches) == diagnosis_rows.MOST_STRETCHES


@pytest.mark.parametrize("seed", range(4))
def test_windows_that_come_together_are_as_those_that_come_one_by_one(sqlite_url: str, seed: int) -> None:
    """Windows of several jobs give the same in any mixture, with stretches that go on and new ones."""
    lot = random.Random(seed)
    with world(sqlite_url) as w:
        for job_id in ("j1", "j2", "j3", "j4"):
            running_job(w, job_id)
        ids = {job_id: w.attempts(job_id)[-1].id for job_id in ("j1", "j2", "j3", "j4")}
        for _ in range(6):
            drawn = [(lot.choice((1, 2)), _window(w, lot.choice((kinds.INPUT, kinds.HOST)))) for _ in range(12)]
            together = [NewWindow(f"j{number}", ids[f"j{number}"], 1, window) for number, window in drawn]
            alone = [NewWindow(f"j{number + 2}", ids[f"j{number + 2}"], 1, window) for number, window in drawn]
            with w.database.write() as connection:
                came = diagnosis_rows.add_windows(connection, together)
                assert [one.windows for one in came] == [
                    diagnosis_rows.add_windows(connection, [one])[0].windows for one in alone
                ]
        with w.database.read() as connection:
            stretches = diagnosis_rows.of_jobs(connection, ids)
        for one, other in (("j1", "j3"), ("j2", "j4")):
            shown = [[(row.verdict, row.windows, row.steps) for row in stretches[job_id]] for job_id in (one, other)]
            assert shown[0] == shown[1]


def test_each_of_many_jobs_is_told_of_its_bound(sqlite_url: str) -> None:
    """Their windows end in one report to the database, and a job hears of each bound once."""
    with world(sqlite_url) as w:
        reports = []
        for job_id in ("j1", "j2", "j3"):
            running_job(w, job_id)
            attempt = w.attempts(job_id)[-1]
            started_at = attempt.agent.started_at
            assert started_at is not None
            minutes = [
                MeasuredMinute(1, started_at + number * MINUTE, STARVED, 60 * number, started_at + number * MINUTE)
                for number in range(4, 4 + 17)
            ]
            reports.append(diagnosis.MinuteReport(attempt, minutes, attempt.agent))
        for _ in "12":
            with w.database.write() as connection:
                diagnosis.record(connection, reports, w.clock.now())
        assert sorted(str(event.data["job"]) for event in w.events("JobBoundFound")) == ["j1", "j2", "j3"]
        with w.database.read() as connection:
            stretches = diagnosis_rows.of_jobs(connection, ["j1", "j2", "j3"])
            left = diagnosis_rows.open_minutes(connection, {report.attempt.id: 1 for report in reports})
        assert [[one.windows for one in stretches[job_id]] for job_id in ("j1", "j2", "j3")] == [[3]] * 3
        assert [len(minutes) for minutes in left.values()] == [2, 2, 2]


def _window(w: World, bound: str) -> JudgedWindow:
    return JudgedWindow(w.clock.now(), w.clock.now(), BoundVerdict(bound, None, 0.5, (), ""), "")


def test_an_achieved_saving_is_measured_by_the_cost_of_a_step(sqlite_url: str) -> None:
    """The same script launched again makes twice the steps: each costs half, next to the 60 % that were promised."""
    with world(sqlite_url) as w:
        running_job(w, command=("python", "train.py", "--workers", "2"))
        minutes_of(w, 13, pace=60)
        w.exit("cg-j1-1")
        w.settle()
        running_job(w, "j2", command=("python", "train.py", "--workers", "8"))
        minutes_of(w, 13, BUSY, "cg-j2-1", pace=120)
        saved = _diagnosis(w, "j2").achieved
        assert saved is not None
        assert (saved.job_id, saved.bound) == ("j1", "input")
        assert saved.share == pytest.approx(0.5, abs=0.02)
        assert saved.promised == pytest.approx(0.6)


def test_another_script_says_nothing_of_a_saving(sqlite_url: str) -> None:
    """The steps of another script are other steps."""
    with world(sqlite_url) as w:
        running_job(w, command=("python", "train.py"))
        minutes_of(w, 13)
        w.exit("cg-j1-1")
        w.settle()
        running_job(w, "j2", command=("python", "evaluate.py"))
        minutes_of(w, 13, name="cg-j2-1")
        assert _diagnosis(w, "j2").achieved is None


def test_hostile_minutes_are_dropped(sqlite_url: str) -> None:
    """A job goes on whatever its VM sends, and nothing is judged."""
    with world(sqlite_url) as w:
        running_job(w)
        hostile: tuple[object, ...] = (
            {"seconds": 1e300},
            [],
            "x",
            {"gpus": [[]] * 99},
            {"command": {"cpu": float("nan")}},
            None,
        )
        for minute in hostile:
            w.say("cg-j1-1", ("activity", {"run": 1, "minute": minute}))
        assert _diagnosis(w).held is None


@pytest.mark.parametrize(
    ("words", "script"),
    [
        (("torchrun", "--nproc-per-node", "8", "src/train.py", "--lr", "1"), "train.py"),
        (("python", "-m", "acme.train", "x.py"), "acme.train"),
        (("bash", "run.sh"), "run.sh"),
        (("my-trainer", "--fast"), None),
    ],
)
def test_the_script_of_a_command(words: tuple[str, ...], script: str | None) -> None:
    """The script stays when an owner changes the options of a training."""
    assert script_of(words) == script


def test_time_left() -> None:
    """The time left is known by steps where both are known, else by the owner's estimate; it is never below zero."""
    assert time_left(100, 460, 0.1, None, None) == timedelta(hours=1)
    assert time_left(None, 460, 0.1, timedelta(hours=3), timedelta(hours=1)) == timedelta(hours=2)
    assert time_left(500, 460, 0.1, None, None) == timedelta()
    assert time_left(100, None, 0.1, None, None) is None
    assert promised(None, Money(1), None) is None


LARGER = [
    ("g2-standard-12", 12, 49152, "nvidia-l4", 1, "g2-standard-16"),
    ("g2-standard-32", 32, 131072, "nvidia-l4", 1, None),
    ("g2-standard-24", 24, 98304, "nvidia-l4", 2, None),
    ("n1-standard-8", 8, 30720, "nvidia-tesla-t4", 1, "n1-standard-16"),
    ("n1-highmem-8", 8, 53248, "nvidia-tesla-v100", 1, None),
    ("a2-highgpu-1g", 12, 87040, "nvidia-tesla-a100", 1, None),
    ("n1-standard-8", 8, 30720, None, 0, None),
]


@pytest.mark.parametrize(("name", "vcpus", "memory", "gpu", "gpus", "larger"), LARGER)
def test_the_next_larger_vm_has_the_same_gpus(
    name: str, vcpus: int, memory: int, gpu: str | None, gpus: int, larger: str | None
) -> None:
    """The larger VM is one that Google sells; its size is that of Google's list of machine types."""
    shape = next_larger(Shape(name, vcpus, memory, gpu, gpus))
    assert (shape.machine_type if shape else None) == larger
    if shape is not None:
        real = machine_types.find("us-central1-a", shape.machine_type)
        assert real is not None
        assert (shape.vcpus, shape.memory_mib) == (real.vcpus, real.memory_mb)
