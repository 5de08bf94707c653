"""Names the VM that the others of a gang wait for, and never a wrong one where there is none."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest
from tests.builders import at

from costguard.jobs.decide.gang.straggler import MemberMinutes, Straggler, straggler_of
from costguard_vm.diagnosis import kinds
from costguard_vm.diagnosis.signals import CommandSignals, GpuSignals, HostSignals, Minute, StackSignals, read_minute

OUTSIDE = Path(__file__).parents[4] / "shared" / "outside" / "gpu-samples"
NODES = 4
MINUTE = timedelta(minutes=1)
CALM = {"sw_power_cap": 0.0}


def gpu(kernel: float = 0.97, computing: float = 0.7, clock: float = 1900, **more: Any) -> GpuSignals:
    values: dict[str, Any] = {"clock_reasons": CALM, "sm_clock_most_mhz": 1980.0, "samples": 600.0, **more}
    return GpuSignals(kernel_active=kernel, sm_active=computing, sm_clock_mhz=clock, **values)


def vm(*gpus: GpuSignals, main: float = 0.9, asleep: float = 0.05, **more: Any) -> Minute:
    """A minute of one VM; `more` are fields of its command's signals."""
    command = CommandSignals(processes=2.0, cpu=1.0, ranks=1.0, main_cpu=main, main_asleep=asleep, **more)
    return Minute(seconds=60.0, looks=60.0, gpus=gpus, command=command, host=HostSignals(cpus=16.0))


def stood(minute: Minute, **places: float) -> Minute:
    return minute._replace(stacks=StackSignals(looks=60.0, places=places, frames={}))


def over(nodes: Sequence[Sequence[Minute]], late: Sequence[float] = (0, 20, 40, 55)) -> Straggler | None:
    """Judges minutes of nodes, each of which reports at its own second."""
    members = [
        MemberMinutes(
            node,
            f"cg-j1-{node + 1}",
            [
                (at("12:00") + number * MINUTE + timedelta(seconds=late[node % 4]), one)
                for number, one in enumerate(some)
            ],
        )
        for node, some in enumerate(nodes)
    ]
    return straggler_of(members)


def steadily(by_node: Sequence[Minute], minutes: int = 8) -> Straggler | None:
    return over([[one] * minutes for one in by_node])


WAITS = gpu(kernel=0.99, computing=0.4)  # its collective's kernel waits for more than half of the time


def test_a_slow_loader_is_named_with_its_vm() -> None:
    """The GPU of one waits for data, while a collective's kernel keeps the others' busy."""
    slow = stood(vm(gpu(kernel=0.5, computing=0.4), main=0.2, asleep=0.75, workers=2.0), loader=0.9, host=0.1)
    straggler = steadily([vm(WAITS), vm(WAITS), slow, vm(WAITS)])
    assert straggler is not None
    assert (straggler.node, straggler.name, straggler.gpu) == (2, "cg-j1-3", None)
    assert straggler.verdict.bound == kinds.INPUT
    assert straggler.text.startswith("node 2 (cg-j1-3) holds up the others: its input")


def test_slow_clocks_are_named_with_the_gpu() -> None:
    """Heat holds one of 32 GPUs down; all kernels run all the time."""
    hot = gpu(computing=0.9, clock=990, clock_reasons={"hw_thermal": 0.8})
    cool = [gpu(kernel=0.98, computing=0.5)] * 8
    straggler = steadily([vm(*cool), vm(*cool), vm(*cool), vm(*cool[:5], hot, *cool[:2])])
    assert straggler is not None
    assert (straggler.node, straggler.gpu) == (3, 5)
    assert straggler.verdict.bound == kinds.THROTTLED
    assert "990 MHz, where the others have 1,900 MHz" in straggler.verdict.why


def test_two_vms_are_enough_for_clocks_and_for_nothing_else() -> None:
    """Nobody can say which of two the other waits for; a hot GPU says so itself."""
    hot = gpu(computing=0.9, clock=990, clock_reasons={"hw_thermal": 0.8})
    assert (named := steadily([vm(gpu()), vm(hot)])) is not None
    assert named.node == 1
    assert steadily([vm(WAITS), vm(gpu(kernel=0.5))]) is None


def test_a_gpu_that_computes_while_the_others_wait_is_named() -> None:
    """Nothing says why; that all others wait for it is known."""
    straggler = steadily([vm(WAITS), vm(gpu(kernel=0.98, computing=0.9)), vm(WAITS), vm(WAITS)])
    assert straggler is not None
    assert (straggler.node, straggler.verdict.bound) == (1, kinds.COMPUTE)


def test_all_loaders_of_a_vm_name_the_vm() -> None:
    """The VM's disk is slow for all eight of its GPUs, so that none of them stands out."""
    slow = vm(*[gpu(kernel=0.55)] * 8, main=0.2, asleep=0.7, workers=16.0, workers_in_d=0.6)
    straggler = steadily([vm(*[WAITS] * 8), slow, vm(*[WAITS] * 8), vm(*[WAITS] * 8)])
    assert straggler is not None
    assert (straggler.node, straggler.gpu) == (1, None)
    assert straggler.verdict.bound == kinds.INPUT


def test_on_cpus_the_one_that_does_not_sleep_is_named() -> None:
    """The others sleep in a receive; that its main thread waits for a CPU says what keeps it."""
    waiting = vm(main=0.4, asleep=0.6)
    straggler = steadily([waiting, waiting, waiting, vm(main=0.5, asleep=0.05, main_queue=0.45)])
    assert straggler is not None
    assert (straggler.node, straggler.verdict.cause) == (3, kinds.PROCESSORS)


def test_on_cpus_a_loader_that_sleeps_is_named_by_stacks_alone() -> None:
    """All main threads sleep then: what they wait for is what their stacks say."""
    waiting = stood(vm(main=0.3, asleep=0.7), host=1.0)
    slow = stood(vm(main=0.3, asleep=0.7), loader=0.65, host=0.35)
    assert (straggler := steadily([waiting, slow, waiting, waiting])) is not None
    assert (straggler.node, straggler.verdict.bound) == (1, kinds.INPUT)
    unseen = [one._replace(stacks=None) for one in (waiting, slow, waiting, waiting)]
    assert steadily(unseen) is None


NONE_OF_THEM = {
    "all alike": [vm(gpu())] * 4,
    "all starved alike": [vm(gpu(kernel=0.5), main=0.3, asleep=0.6, workers=2.0)] * 4,
    "two are slow": [vm(WAITS), vm(gpu(kernel=0.5)), vm(WAITS), vm(gpu(kernel=0.5))],
    "one is a little slower": [vm(gpu(kernel=0.99)), vm(gpu(kernel=0.85)), vm(gpu(kernel=0.99)), vm(gpu(kernel=0.99))],
    "the others' GPUs rest as well": [vm(gpu(kernel=0.75)), vm(gpu(kernel=0.5)), *[vm(gpu(kernel=0.75))] * 2],
    "node 0 saves for all": [
        stood(vm(gpu(kernel=0.6), main=0.5), checkpoint=0.9, host=0.1),
        *[vm(WAITS)] * 3,
    ],
    "stages of a pipeline": [vm(gpu(computing=share)) for share in (0.3, 0.45, 0.55, 0.9)],
    "one GPU cannot be read": [vm(WAITS), vm(gpu(kernel=0.5)), vm(WAITS), vm()._replace(gpus=None)],
    "node 0 logs while others compute": [vm(main=0.8, asleep=0.2), *[vm(main=0.7, asleep=0.3)] * 3],
}


@pytest.mark.parametrize("minutes", NONE_OF_THEM.values(), ids=NONE_OF_THEM)
def test_no_straggler_is_named_where_none_is_known(minutes: Sequence[Minute]) -> None:
    """Nobody is named by what differs in another way, or cannot be compared."""
    assert steadily(minutes) is None


def test_it_must_stand_out_in_both_halves() -> None:
    """A save, an evaluation or a hiccup of one VM in half of the time names nobody, nor do two in turns."""
    slow, calm = vm(gpu(kernel=0.4), main=0.9, asleep=0.0), vm(WAITS)
    assert over([[calm] * 8, [calm] * 5 + [slow] * 3, [calm] * 8]) is None
    assert over([[calm] * 8, [calm] * 5 + [slow] * 3, [slow] * 5 + [calm] * 3], late=(0, 0, 0, 0)) is None
    assert over([[calm] * 8, [calm] * 2 + [slow] * 6, [calm] * 8]) is not None


def test_a_vm_that_reports_nothing_leaves_it_unknown() -> None:
    """The silent one may be the straggler."""
    slow, calm = vm(gpu(kernel=0.4), main=0.9, asleep=0.0), vm(WAITS)
    assert over([[calm] * 8, [slow] * 8, [calm] * 8, []]) is None
    assert over([[calm] * 8, [slow] * 8, [calm] * 8, [calm] * 3]) is None
    assert over([[calm] * 8, [slow] * 8, [calm] * 8, [calm] * 8]) is not None


# Four real processes, as the agent's own watch measured them: `python -m tests.gangs.straggling`.

MEASURED = Path(__file__).parents[2] / "gangs" / "straggling.json"
BOUNDS = {
    "computing": {kinds.HOST, kinds.INPUT_OR_HOST},
    "burned": {kinds.HOST, kinds.INPUT_OR_HOST},
    "decoding": {kinds.INPUT},
    "sleeping": {kinds.INPUT},
}


def of_runs() -> list[tuple[str, list[Straggler | None]]]:
    """Returns how each measured run is judged as its minutes go by."""
    judged = []
    for run in json.loads(MEASURED.read_text())["runs"]:
        ranks = [[read_minute(minute) or Minute() for minute in minutes] for minutes in run["ranks"]]
        spans = range(len(ranks[0]) - 5)
        judged.append(
            (run["planted"], [over([some[begin : begin + 6] for some in ranks], (0,) * 4) for begin in spans])
        )
    return judged


@pytest.mark.parametrize("planted", BOUNDS)
def test_a_real_slow_rank_is_named_with_what_keeps_it(planted: str) -> None:
    """Rank 2 was made slow, on a machine whose two cores others used as well."""
    slow = json.loads(MEASURED.read_text())["slow"]
    straggler = [one for kind, judged in of_runs() if kind == planted for one in judged if one is not None]
    assert straggler
    assert {one.node for one in straggler} == {slow}
    assert {one.verdict.bound for one in straggler} <= BOUNDS[planted]


def test_no_real_rank_is_named_without_a_straggler() -> None:
    """All ranks of these runs do the same."""
    calm = [one for kind, judged in of_runs() if not kind for one in judged]
    assert len(calm) >= 48
    assert [one.text for one in calm if one is not None] == []


# Step times of real trainings, as their VMs would be measured where all wait for the slowest in each step.


def recorded(number: int) -> dict[str, list[float]]:
    """The mini-batch times of each worker of a job of Alibaba's, in order; see the folder's README."""
    if not OUTSIDE.exists():
        pytest.skip("the recordings of GPUs lie next to this repository only")
    times: dict[str, list[float]] = {}
    with gzip.open(OUTSIDE / f"pai_minibatch_job{number}.csv.gz", "rt") as source:
        for row in sorted(csv.DictReader(source), key=lambda row: float(row["time"])):
            times.setdefault(row["worker"], []).append(float(row["batch_time_norm"]))
    return times


def as_minute(own: float, on_gpu: bool) -> Minute:
    """A minute of a rank whose own work takes this share of each step; for the rest it waits for the slowest."""
    if on_gpu:
        return vm(gpu(kernel=0.98, computing=0.9 * own))
    return vm(main=own, asleep=1 - own)


def named(times: Mapping[str, Sequence[float]], on_gpu: bool, looks: int = 6) -> set[str]:
    """Returns all workers that are named as minutes go by, one for each look."""
    workers, length = sorted(times), min(len(one) for one in times.values())
    slowest = [max(times[worker][look] for worker in workers) or 1.0 for look in range(length)]
    shares = {worker: [times[worker][look] / slowest[look] for look in range(length)] for worker in workers}
    workers_named: set[str] = set()
    for begin in range(0, length - looks, 2):
        some = [[as_minute(share, on_gpu) for share in shares[worker][begin : begin + looks]] for worker in workers]
        if (straggler := over(some, late=(0, 0, 0, 0))) is not None:
            workers_named.add(workers[straggler.node])
    return workers_named


@pytest.mark.parametrize("on_gpu", [True, False], ids=["gpu", "cpu"])
def test_the_straggler_of_a_recorded_training_is_named_and_no_other(on_gpu: bool) -> None:
    """Worker 6 of job 1 straggles in the middle, by its authors; job 2 has none."""
    times = recorded(1)
    assert named(times, on_gpu) == {"6"}
    assert named(recorded(2), on_gpu) == set()


@pytest.mark.parametrize("on_gpu", [True, False], ids=["gpu", "cpu"])
def test_no_rank_is_named_in_a_hundred_gangs_without_a_straggler(on_gpu: bool) -> None:
    """Any four of the workers that do not straggle, over any hour of their recordings."""
    random, wrong = Random(7), []
    pools = [{worker: took for worker, took in recorded(1).items() if worker != "6"}, recorded(2)]
    for run in range(100):
        pool = pools[run % 2]
        begin = random.randrange(0, min(map(len, pool.values())) - 60)
        some = {worker: pool[worker][begin : begin + 60] for worker in random.sample(sorted(pool), NODES)}
        if others := named(some, on_gpu):
            wrong.append((run, others, {worker: median(took) for worker, took in some.items()}))
    assert wrong == []
