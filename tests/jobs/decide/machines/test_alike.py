"""Runs of one script are compared by what they cost on each machine, to 1,000 steps and to an equal metric."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.job_rows import RECIPE as JOB_RECIPE
from tests.jobs.job_rows import SPEC
from tests.jobs.job_rows import job as made_job
from tests.jobs.world import RECIPE, World, world

from costguard.db.transaction import Database
from costguard.jobs.decide.machines.alike import MetricReached, ScriptRun, compare, is_one_script, reached
from costguard.jobs.reports.alike import AlikeJobs, alike_jobs
from costguard.jobs.rows import job_rows, script_rows
from costguard.ledger.accrual import accrual_at
from costguard.model.job import CheckpointPlan, JobCode, JobKind, JobMetric
from costguard.model.money import Money, Priced
from costguard_vm.progress.log_reader import LINE_END, readings
from costguard_vm.progress.track import Track

CURVES = Path(__file__).parents[5] / "shared" / "loss-curves" / "curves.csv.gz"
LOGS = Path(__file__).parents[5] / "shared" / "training-logs"
A100 = replace(JOB_RECIPE, machine_type="a2-highgpu-1g", gpu_type="nvidia-tesla-a100", attaches_gpus=False)
CODE = JobCode("a" * 64, 10, 1, commit="c" * 40)


def _dollars(amount: str) -> Money:
    return Money.of(amount)


def _run(
    job_id: str = "j1",
    preset: str = "t4",
    cost: str | None = "10",
    steps: int | None = 1000,
    curve: Sequence[tuple[float, str | None]] = (),
    **more: Any,
) -> ScriptRun:
    recipe = A100 if preset == "a100" else JOB_RECIPE
    priced = Priced(_dollars("7"), whole=False) if cost is None else Priced(_dollars(cost))
    values = [MetricReached(value, None if paid is None else _dollars(paid)) for value, paid in curve]
    return ScriptRun(made_job(job_id, preset=preset, recipe=recipe, **more), priced, steps, values)


# Which runs are compared.


def test_the_same_code_and_script_are_one_script_whatever_their_options_and_preset() -> None:
    """Either the archive or the commit is the same; another file of it is another script."""
    spec = replace(SPEC, code=CODE, command=("python", "train.py", "--lr", "1"))
    other = replace(spec, preset="a100", owner="bo@lab.example", command=("torchrun", "src/train.py", "--lr", "2"))
    assert is_one_script(spec, other)
    assert is_one_script(spec, replace(other, code=replace(CODE, sha256="b" * 64)))  # the same commit
    assert not is_one_script(spec, replace(other, code=replace(CODE, sha256="b" * 64, commit="d" * 40)))
    assert not is_one_script(spec, replace(other, command=("python", "evaluate.py")))


def test_code_outside_of_a_repository_has_no_commit_that_could_be_equal() -> None:
    """Two empty commits are not one."""
    spec = replace(SPEC, code=replace(CODE, commit=""))
    other = replace(spec, owner="bo@lab.example", code=replace(CODE, sha256="b" * 64, commit=""))
    assert not is_one_script(spec, other)


def test_the_same_command_line_is_one_script_of_its_owner_or_of_one_image() -> None:
    """Two people may both call their script train.py."""
    spec = replace(SPEC, code=CODE)
    edited = replace(spec, code=replace(CODE, sha256="b" * 64, commit="d" * 40))
    assert is_one_script(spec, edited)
    assert not is_one_script(spec, replace(edited, owner="bo@lab.example"))
    assert not is_one_script(SPEC, replace(SPEC, owner="bo@lab.example"))  # neither brought code, nor names an image
    image = replace(SPEC, code=None, image="registry:5000/lab/train:7")
    newer = replace(image, owner="bo@lab.example", image="registry:5000/lab/train@sha256:1")
    assert is_one_script(image, newer)
    assert not is_one_script(image, replace(newer, image="registry:5000/lab/other:7"))


def test_a_vm_to_work_on_and_other_projects_are_never_compared() -> None:
    """A VM to work on runs no script, and projects have people of their own."""
    assert not is_one_script(SPEC, replace(SPEC, kind=JobKind.DEV))
    assert not is_one_script(SPEC, replace(SPEC, project="other"))


# Dollars for 1,000 steps.


def test_a_machine_costs_what_its_runs_cost_together_by_their_steps() -> None:
    """$10 and $5 for 1,000 and 2,000 steps are $5 for 1,000; the cheapest machine comes first."""
    runs = [_run("j1"), _run("j2", cost="5", steps=2000), _run("j3", "a100", "3", 1000)]
    first, second = compare(runs, "lower").machines
    assert (first.preset, first.per_1000_steps) == ("a100", _dollars("3"))
    assert (second.preset, second.per_1000_steps, second.steps) == ("t4", _dollars("5"), 3000)


def test_money_is_cut_off_to_the_nano_dollar_and_never_a_float() -> None:
    """A third of a dollar has no more than nine places."""
    (machine,) = compare([_run(cost="1", steps=3000)], "lower").machines
    assert machine.per_1000_steps == Money(333_333_333)


@pytest.mark.parametrize("unknown", [{"cost": None}, {"steps": None}, {"cost": "0"}])
def test_runs_with_unknown_cost_or_steps_leave_a_machine_unknown_and_do_not_count(unknown: dict[str, Any]) -> None:
    """Unknown is never zero, and does not make another run cheaper."""
    (machine,) = compare([_run(**unknown)], "lower").machines
    assert machine.per_1000_steps is None
    (machine,) = compare([_run("j1", **unknown), _run("j2", cost="4")], "lower").machines
    assert machine.per_1000_steps == _dollars("4")


def test_an_unknown_machine_comes_last_and_nothing_is_said_of_one_alone() -> None:
    """A single price is no comparison."""
    result = compare([_run("j1", steps=None), _run("j2", "a100")], "lower")
    assert [one.preset for one in result.machines] == ["a100", "t4"]
    assert result.text == ""


def test_the_cheapest_is_named_with_its_saving() -> None:
    """The saving is against the second cheapest, cut off to whole percents."""
    result = compare([_run("j1", cost="10"), _run("j2", "a100", "6.9")], "lower")
    assert (
        result.text == "a100 (a2-highgpu-1g) is the cheapest: $6.90 for 1,000 steps, 31% less than t4 (n1-standard-8)"
    )


# Dollars until the metric was as good.


def test_the_common_value_is_the_best_that_a_run_on_every_machine_reached() -> None:
    """t4 came to 0.3 and a100 to 0.2: both are priced to 0.3, where a100 was at $2."""
    t4 = _run("j1", curve=[(0.9, "1"), (0.3, "4"), (0.31, "5")])
    a100 = _run("j2", "a100", curve=[(0.8, "1"), (0.25, "2"), (0.2, "6")])
    result = compare([t4, a100], "lower")
    assert result.target == 0.3
    assert [(one.preset, one.to_reach) for one in result.machines] == [("a100", _dollars("2")), ("t4", _dollars("4"))]
    assert result.text.startswith("a100 (a2-highgpu-1g) is the cheapest: $2.00 until its metric was as good, 50% less")


def test_higher_is_better_turns_the_comparison() -> None:
    """An accuracy of 0.7 is the worse of the two best ones."""
    t4 = _run("j1", curve=[(0.5, "1"), (0.7, "4")])
    a100 = _run("j2", "a100", curve=[(0.6, "1"), (0.72, "3"), (0.9, "6")])
    result = compare([t4, a100], "higher")
    assert result.target == 0.7
    assert [one.to_reach for one in result.machines] == [_dollars("3"), _dollars("4")]


def test_of_each_machine_the_run_that_got_the_furthest_counts() -> None:
    """A run that crashed at once would else make every comparison trivial."""
    crashed = _run("j0", curve=[(0.95, "0.1")])
    result = compare([crashed, _run("j1", curve=[(0.3, "4")]), _run("j2", "a100", curve=[(0.2, "6")])], "lower")
    assert result.target == 0.3
    assert {one.preset: one.reached_by for one in result.machines} == {"t4": "j1", "a100": "j2"}


def test_a_metric_on_one_machine_alone_compares_nothing() -> None:
    """There is no common value then."""
    result = compare([_run("j1", curve=[(0.3, "4")]), _run("j2", "a100")], "lower")
    assert result.target is None
    assert all(one.to_reach is None for one in result.machines)


def test_an_unknown_cost_at_the_value_is_unknown_and_not_nothing() -> None:
    """The machine with a known cost comes first."""
    result = compare([_run("j1", curve=[(0.3, None)]), _run("j2", "a100", curve=[(0.2, "6")])], "lower")
    assert {one.preset: one.to_reach for one in result.machines} == {"t4": None, "a100": _dollars("6")}
    assert [one.preset for one in result.machines] == ["a100", "t4"]


def test_costs_of_recorded_runs_to_an_equal_metric_are_those_of_their_own_logs() -> None:
    """MLPerf's BERT on different servers, each at a rate of its own: the logs' seconds say when the value was there."""
    if not CURVES.exists():
        pytest.skip("the recorded curves are not here: ../shared/loss-curves")
    csv.field_size_limit(10**9)
    with gzip.open(CURVES, "rt") as source:
        logs = [row for row in csv.DictReader(source) if row["benchmark"] == "bert" and row["seconds"]]
    servers = sorted({row["path"].rsplit("/", 2)[0] for row in logs})
    assert len(servers) > 5
    cents = {server: 1000 + 37 * number for number, server in enumerate(servers)}  # an hour
    runs = []
    for row in logs:
        server = row["path"].rsplit("/", 2)[0]
        spent = [Money(cents[server] * 10**7 * int(second) // 3600) for second in row["seconds"].split()]
        curve = [MetricReached(float(value), paid) for value, paid in zip(row["value"].split(), spent, strict=True)]
        recipe = replace(JOB_RECIPE, machine_type=server)
        job = made_job(row["run"], preset=server, recipe=recipe)
        runs.append(ScriptRun(job, Priced(spent[-1]), None, curve))
    result = compare(runs, "higher")
    best_of = {
        server: max((max(map(float, row["value"].split())), -int(row["run"])) for row in logs if server in row["path"])
        for server in servers
    }
    target = min(best for best, _ in best_of.values())
    assert result.target == target
    for machine in result.machines:
        row = next(one for one in logs if one["run"] == machine.reached_by)
        place = next(place for place, value in enumerate(row["value"].split()) if float(value) >= target)
        seconds = Fraction(row["seconds"].split()[place])
        assert machine.to_reach == Money(int(cents[machine.preset] * 10**7 * seconds / 3600))
    assert [one.to_reach for one in result.machines] == sorted(one.to_reach or Money() for one in result.machines)


def test_a_value_that_is_never_reached_costs_nothing_known() -> None:
    """The cost is None, not zero."""
    assert reached([MetricReached(0.5, _dollars("1"))], 0.4, "lower") is None


# What is read of jobs.

TWO = replace(RECIPE, gpu_count=2)


def _alike(w: World, job_id: str) -> AlikeJobs:
    w.look()
    with w.database.read() as connection:
        answer = alike_jobs(connection, accrual_at(connection, w.clock.now()), job_id)
    assert answer is not None
    return answer


def _evaluations(w: World, name: str, *values: tuple[int, float]) -> None:
    for step, value in values:
        w.clock.advance(timedelta(minutes=10))
        at = w.clock.now().isoformat()
        point = {"unit": "step", "done": step, "at": at, "phase": "eval", "metrics": {"eval_loss": value}}
        w.say(name, ("progress", {"points": [point]}))
        w.beat(name, step=step)
        w.look()


def _up(w: World, job_id: str, **given: Any) -> str:
    w.submit(job_id, checkpoint=CheckpointPlan(f"gs://runs/{job_id}", "--from {checkpoint}"), **given)
    name = f"cg-{job_id}-1"
    w.until_up(name)
    w.start(name)
    w.step()
    return name


def test_two_machines_are_compared_by_the_bill_and_repeated_steps_count_once(sqlite_url: str) -> None:
    """j1 loses 100 steps to a preemption: it made 1,100 and 1,000 of them count."""
    with world(sqlite_url) as w:
        name = _up(w, "j1")
        _evaluations(w, name, (200, 0.9), (400, 0.5))
        w.shelf.save(300, "gs://runs/j1")
        w.notice(name)
        w.cloud.preempt(w.vm(name))
        w.settle(minutes=4)
        w.until_up("cg-j1-2")
        w.start("cg-j1-2")
        w.step()
        assert w.attempts("j1")[1].resume_step == 300
        _evaluations(w, "cg-j1-2", (400, 0.55), (1000, 0.3))
        w.exit("cg-j1-2")
        w.settle()
        second = _up(w, "j2", preset="two", recipe=TWO)
        _evaluations(w, second, (500, 0.4), (1000, 0.25))
        w.exit(second)
        w.settle()
        answer = _alike(w, "j2")
        assert answer.metric is not None
        assert (answer.metric.name, answer.metric.better) == ("eval_loss", "lower")
        machines = {one.preset: one for one in answer.comparison.machines}
        assert set(machines) == {"t4", "two"}
        (run,) = machines["t4"].runs
        assert run.steps == 1000
        assert machines["t4"].per_1000_steps == run.cost.amount
        assert answer.comparison.target == 0.3
        assert [point.value for point in run.curve] == [0.9, 0.55, 0.3]  # 0.5 was of steps that were lost
        (other,) = machines["two"].runs
        assert machines["two"].to_reach == other.curve[1].cost
        assert other.curve[1].cost is not None
        assert Money() < other.curve[1].cost < other.cost.amount


def test_a_run_that_went_on_from_another_ones_checkpoint_has_no_price_of_its_own_metric(sqlite_url: str) -> None:
    """The steps count from where it began, and its metric was paid by another job."""
    with world(sqlite_url) as w:
        name = _up(w, "j1")
        _evaluations(w, name, (500, 0.4))
        w.exit(name)
        w.settle()
        w.shelf.save(500, "gs://runs/j2")
        second = _up(w, "j2", preset="two", recipe=TWO)
        assert w.attempts("j2")[0].resume_step == 500
        _evaluations(w, second, (600, 0.3))
        answer = _alike(w, "j2")
        by_preset = {one.preset: one for one in answer.comparison.machines}
        assert by_preset["two"].runs[0].curve == []
        assert by_preset["two"].runs[0].steps == 100
        assert answer.comparison.target is None


def test_another_pattern_of_the_metric_is_another_number(sqlite_url: str) -> None:
    """A loss is not compared with an accuracy."""
    with world(sqlite_url) as w:
        for job_id, pattern, recipe in (("j1", "loss (.*)", RECIPE), ("j2", "acc (.*)", TWO)):
            name = _up(w, job_id, preset=job_id, recipe=recipe, metric=JobMetric(pattern))
            w.clock.advance(timedelta(minutes=5))
            point = {"at": w.clock.now().isoformat(), "phase": "named", "unit": "step", "done": 5}
            w.say(name, ("progress", {"points": [{**point, "metrics": {"metric": 0.5}}]}))
        answer = _alike(w, "j2")
        curves = {run.job.id: len(run.curve) for one in answer.comparison.machines for run in one.runs}
        assert curves == {"j1": 0, "j2": 1}


def test_there_is_no_comparison_of_a_vm_to_work_on_nor_of_an_unknown_job(sqlite_url: str) -> None:
    """A VM to work on runs no script."""
    with world(sqlite_url) as w:
        w.submit("d1", kind=JobKind.DEV, command=(), checkpoint=None)
        with w.database.read() as connection:
            accrual = accrual_at(connection, w.clock.now())
            assert alike_jobs(connection, accrual, "d1") is None
            assert alike_jobs(connection, accrual, "j9") is None


def test_scripts_are_read_as_they_were_stored(database: Database) -> None:
    """Both databases give the words of a command, its image, and the code's archive and commit; no code is None."""
    with_code = made_job("j1", command=("python", "tränen.py", "--x", '"'), image="lab/train:1", code=CODE)
    without = made_job("j2", command=(), image="lab/train:1", code=None, created_at=with_code.created_at)
    with database.write() as connection:
        for job in (with_code, without, made_job("d1", kind=JobKind.DEV), made_job("o1", project="other")):
            job_rows.add(connection, job, None, "")
    with database.read() as connection:
        newest = script_rows.newest_scripts(connection, SPEC.project, 10)
        assert len(script_rows.newest_scripts(connection, SPEC.project, 1)) == 1
    assert [job_id for job_id, _ in newest] == ["j2", "j1"]
    for job, (_, spec) in zip((without, with_code), newest, strict=True):
        stored = (spec.owner, spec.preset, spec.command, spec.image)
        assert stored == (job.spec.owner, job.spec.preset, job.spec.command, job.spec.image)
        assert is_one_script(job.spec, spec)
    assert newest[0][1].code is None
    assert newest[1][1].code is not None
    assert (newest[1][1].code.sha256, newest[1][1].code.commit) == (CODE.sha256, CODE.commit)


def test_a_recorded_training_is_compared_by_the_steps_and_the_metric_of_its_output(sqlite_url: str) -> None:
    """The output of a nanoGPT run, read as the agent reads it, on one T4 and at twice the pace on two."""
    if not LOGS.exists():
        pytest.skip("the recorded samples are not here: ../shared/training-logs")
    (sample,) = (one for one in json.loads((LOGS / "expected.json").read_text()) if one["id"] == "nanogpt-1")
    with (LOGS / sample["file"]).open(newline="") as source:
        read = [reading for _, reading in readings(LINE_END.split(source.read()))]
    last = max(one["step"] for one in sample["expected"])
    (value,) = (one["metrics"]["val loss"] for one in sample["expected"] if one["phase"] == "eval")
    with world(sqlite_url) as w:
        for job_id, recipe, minutes in (("j1", RECIPE, 20), ("j2", TWO, 10)):
            name = _up(w, job_id, preset=job_id, recipe=recipe)
            track = Track()
            for reading in read:
                w.clock.advance(timedelta(minutes=minutes))
                track.take(reading, w.clock.now().isoformat(), w.clock.now().timestamp())
                w.beat(name, step=int(track.done or 0))
                w.look()
            w.say(name, ("progress", {"points": [point.as_json() for point in track.take_points()]}))
            w.exit(name)
            w.settle()
        answer = _alike(w, "j1")
        assert answer.metric is not None
        assert answer.metric.name == "val loss"
        assert answer.comparison.target == value
        one, two = sorted(answer.comparison.machines, key=lambda machine: machine.preset)
        assert (one.steps, two.steps) == (last, last)
        assert one.per_1000_steps == Money(one.runs[0].cost.amount.nanos * 1000 // last)
        assert one.to_reach is not None
        assert two.to_reach is not None
        assert Money() < two.to_reach < one.to_reach < one.runs[0].cost.amount
