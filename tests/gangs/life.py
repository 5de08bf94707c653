"""Lives gangs in the simulated cloud with a real guard and real agents, disturbs them, and judges what came of it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from tests.gangs import judge, train_plain
from tests.gangs.disturb import Disturbances
from tests.gangs.job import GangJob, node_of
from tests.scenario.training_ground import PROJECT, TrainingWorld, ground
from tests.shards.judge import differences
from tests.shards.ledger import open_entries, spent_by_vm

from costguard.db.transaction import Database
from costguard_sandbox.gce.meter import bills
from costguard_sandbox.world import World

_PATIENCE_S = 600.0
_LONGEST_WAIT_S = 150.0  # for all VMs of a gang that runs with what can be had
SHARDS = 12  # of the batch of such a gang: 2, 3 and 4 VMs have equal parts of it
_SPREAD = 60  # steps over which disturbances come, however many more there are
_LOOK_S = 0.5  # a guard answers so many requests of one token and no more
_OVER = ("succeeded", "failed", "cancelled")
SETTINGS = 'heartbeat = "1s"\ncancel_grace = "10s"\nfirst_wait = "5s"\nquick_crash = "1s"\ncrash_loop = 20'
"""Settings of [jobs], in real seconds where agents keep them: words of the guard come within a second."""


@dataclass
class Life:
    """Holds what one job went through: sentences about what is `wrong`, and what was measured."""

    wrong: list[str] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    vms: int = 0
    moves: int = 0
    grown: int = 0  # rounds of more VMs than the one before
    seconds: float = 0.0


@contextmanager
def gang_ground(folder: Path, speed: float, more: str = "") -> Iterator[TrainingWorld]:
    """A world for gangs, whose guard reads the simulated cloud's prices. `more` are tables of its settings."""
    folder.mkdir(parents=True)
    with ground(folder, 5.0, f"{SETTINGS}\n{more}", speed=speed, bills=True) as place:
        yield place


def undisturbed(place: TrainingWorld, kind: str, nodes: int, steps: int, shards: int = 0) -> str:
    """Returns the digest of the last weights of a training that nobody disturbs.

    `shards` are those of one with any number of VMs, and make its batch: so it trains with the most of them.
    """
    if kind == "plain":
        return train_plain.undisturbed(shards or nodes, steps)
    job = GangJob(place, kind, nodes, f"{kind}-{nodes}-undisturbed")
    job.home.mkdir(parents=True)
    (job.home / "go").touch()
    job.launch(steps, *(("--shards", str(shards), "--last-after", str(job.home / "go")) if shards else ()))
    _until(lambda: job.state in _OVER, "the undisturbed gang has ended")
    (digest,) = set(job.finals)
    return digest


def lived(
    place: TrainingWorld, job: GangJob, steps: int, disturbances: Disturbances, count: int, expected: str
) -> Life:
    """Runs a job to its end, which `count` disturbances come upon. One that runs with what can be had makes its last
    step once it has all of its VMs again.
    """
    began, lot, pause = time.monotonic(), disturbances.lot, threading.Event()
    go = job.home / "go"
    options = ["--patience", "6", "--step-seconds", "0.4"] if job.kind == "plain" else []
    options += ["--shards", str(SHARDS), "--last-after", str(go)] if job.is_elastic else []
    job.launch(steps, *options)
    moment = _moment(job, min(steps, _SPREAD), lot)
    state, look_at, last_at = job.state, 0.0, began
    while state not in _OVER:
        assert time.monotonic() - began < _PATIENCE_S + 60 * count, f"it does not end: {job.detail['job']['reason']}"
        is_over = len(disturbances.happened) >= count
        if not is_over and job.step < steps * 0.8 and moment():
            disturbances.one()
            moment, last_at = _moment(job, min(steps, _SPREAD), lot), time.monotonic()
        if job.is_elastic and is_over and not go.exists() and _is_whole_again(job, last_at):
            go.touch()
        pause.wait(0.05)
        if time.monotonic() >= look_at:
            state, look_at = job.state, time.monotonic() + _LOOK_S
    disturbances.end()
    place.world.faults.clear("stockout")
    place.wait_until_nothing_bills()
    life = Life(happened=Counter(disturbances.happened), seconds=time.monotonic() - began)
    written = job.written
    life.rounds, life.vms = len({one.round for one in written}), len(job.vms)
    reason = str(job.detail["job"]["reason"])
    # A person who deletes a VM of a job cancels the job, unless Google's word of it came too late.
    if not (state == "cancelled" and "was deleted by" in reason and life.happened["VM deleted by hand"]):
        life.wrong += [f"the job is {state}: {reason}"] if state != "succeeded" else []
        life.wrong += judge.wrong_weights(job.finals, job.nodes, expected, job.least)
    life.wrong += judge.at_once(written)
    life.wrong += judge.one_process_each(written, job.nodes)
    left = job.ended_early
    life.moves = len(left["moved"]) // job.nodes
    widths = list(job.widths.values())
    life.grown = sum(later > earlier for earlier, later in pairwise(widths))
    ended = [*left["moved"], *left["succeeded"], *left["cancelled"]]
    life.wrong += judge.vms_too_many(list(map(node_of, job.vms)), job.nodes, disturbances.lost, ended)
    return life


def _is_whole_again(job: GangJob, last_at: float) -> bool:
    """Says whether the newest round runs with all VMs; in the end it does not matter."""
    widths = job.widths
    return time.monotonic() > last_at + _LONGEST_WAIT_S or (bool(widths) and widths[max(widths)] == job.nodes)


def money_wrong(place: TrainingWorld) -> tuple[list[str], str]:
    """Compares the ledger with the simulated cloud's bill, VM by VM, once the guard has looked at the ends of all; and
    returns the sums of both.
    """
    place.wait_until_nothing_bills()
    world = place.world
    billed = {str(one["id"]): int(one["nanos"]) for one in _shown_bills(world)}
    with closing(Database.open(place.database)) as database:

        def wrong() -> list[str]:
            return list(differences(billed, spent_by_vm(database)))

        with suppress(AssertionError):  # what it waits for in vain is judged
            place.wait(lambda: open_entries(database) == 0 and not wrong(), "the ledger has seen everything end")
        spent = spent_by_vm(database)
        sums = f"${sum(billed.values()) / 1e9:.6f} / ${sum(spent.values()) / 1e9:.6f}"
        return wrong(), sums


def ready_again(place: TrainingWorld, nodes: int) -> tuple[float, float, list[str]]:
    """Returns how long one VM takes from its request to its command, and a gang from the loss of one VM to the next
    round's commands, in real seconds; and what is wrong about the others, which must stay.
    """
    alone = GangJob(place, "plain", 1, f"alone-{nodes}")
    alone.launch(40)
    place.wait(lambda: alone.written, "the command of one VM runs")
    start_s = alone.written[0].began - alone.asked_at
    job = GangJob(place, "plain", nodes, f"ready-{nodes}")
    job.launch(40, "--last-after", str(job.home / "go"), "--patience", "60")
    _until(lambda: job.runs_in(1) and job.step >= 5, "the gang runs")
    others = {vm.id for vm in job.up if node_of(vm) != nodes - 1}
    lost = job.vm_of(nodes - 1)
    assert lost is not None
    lost_at = time.monotonic()
    place.world.preempt(PROJECT, lost.name)
    _until(lambda: job.runs_in(2), "the next round runs")
    again_s = max(one.began for one in job.written if one.round == 2) - lost_at
    (job.home / "go").touch()
    _until(lambda: job.state in _OVER, "it has ended")
    kept = {vm.id for vm in job.vms if node_of(vm) != nodes - 1}
    wrong = [f"{len(kept - others)} VMs were made for nodes that were not lost"] if kept != others else []
    wrong += judge.at_once(job.written)
    wrong += judge.wrong_weights(job.finals, nodes, train_plain.undisturbed(nodes, 40))
    return start_s, again_s, wrong


def _shown_bills(world: World) -> list[dict[str, Any]]:
    return [one.shown() for one in bills(world.every_vm(), world.prices, world.now)]


def _moment(job: GangJob, steps: int, lot: Random) -> Callable[[], bool]:
    """Returns whether the next disturbance is due: in two of three once some steps more were saved, else after some
    seconds, whatever goes on.
    """
    now = time.monotonic()
    step, least, most = job.step + lot.randrange(0, max(2, steps // 4)), now + lot.uniform(0.0, 1.0), now + 60.0
    if lot.random() < 1 / 3:
        most = now + lot.uniform(0.0, 6.0)
        return lambda: time.monotonic() >= most
    return lambda: time.monotonic() >= least and (job.step > step or time.monotonic() >= most)


def _until(holds: Callable[[], object], what: str) -> None:
    ends, pause = time.monotonic() + _PATIENCE_S, threading.Event()
    while not holds():
        assert time.monotonic() < ends, f"waited {_PATIENCE_S:g} s in vain until {what}"
        pause.wait(_LOOK_S)
