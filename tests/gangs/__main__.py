"""Disturbs gangs of real trainings on the simulated cloud, with a real guard and real agents: `make gangs`, or parts
of it with `make gangs ARGS="--parts torch-8,jax-2..4 --kills 10"`.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.gangs import cut
from tests.gangs.disturb import Disturbances
from tests.gangs.job import KINDS, GangJob
from tests.gangs.life import SHARDS, gang_ground, lived, money_wrong, ready_again, undisturbed
from tests.trainers.bench_client import PYTHON, ROOT

from costguard.model.options.node_count import node_count, parts_of

_FOLDER = ROOT / ".cache" / "gangs"
_PARTS = ("plain-2", "plain-8", "torch-4", "torch-8", "jax-2", "jax-4", "torch-2..4", "jax-2..4")
_STEPS = {"plain": 60, "torch": 30, "jax": 30}
_ELASTIC_STEPS = 600  # more than it makes until all of its VMs are there again
# Of the fleet's clock: where a lost VM is not there again within five minutes of it, the gang moves as a whole.
_SPEED = {"plain": 10.0, "torch": 5.0, "jax": 5.0}
_LONGEST_CUT_S = {"plain": 10.0, "torch": 5.0, "jax": 5.0}  # PyTorch's and JAX's own patience is of minutes
_READY_SPEED = 4.0
_EACH_LIFE = 8


@dataclass(frozen=True, slots=True)
class Part:
    """A kind of training on a number of VMs, `torch-8`, or on what can be had of a range, `jax-2..4`."""

    name: str
    kind: str
    nodes: int
    least: int

    @property
    def steps(self) -> int:
        return _ELASTIC_STEPS if self.least < self.nodes else _STEPS[self.kind]

    @property
    def shards(self) -> int:
        """Returns the shards of the batch, which any number of VMs computes; 0: each VM has its own."""
        return SHARDS if self.least < self.nodes else 0


def _part(text: str) -> Part:
    kind, _, count = text.partition("-")
    if kind not in KINDS:
        raise argparse.ArgumentTypeError(f"{text!r} is no part: name one of {', '.join(KINDS)} and a number of VMs")
    most, least = parts_of(node_count(count))
    return Part(text, kind, most, least or most)


def _parts(text: str) -> list[Part]:
    return [_part(name) for name in text.split(",") if name]


def _main(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gangs", description=__doc__)
    every = ",".join(_PARTS)
    parser.add_argument("--parts", type=_parts, default=_parts(every), help=f"one or more (default: {every})")
    parser.add_argument("--kills", type=int, default=25, help="disturbances of each part (default: 25)")
    parser.add_argument("--minutes", type=float, default=12, help="begin no other life of a part after these")
    parser.add_argument("--seed", type=int, default=1, help="of the moments; their effect also depends on the machine")
    parser.add_argument("--ready", default="2,4,8", help="sizes of gangs to measure how soon one is ready again")
    wanted = parser.parse_args(given)
    can_cut = cut.enter("tests.gangs", given)
    parts = [part for part in wanted.parts if part.kind == "plain" or PYTHON.exists()]
    if left_out := [part.name for part in wanted.parts if part not in parts]:
        print(f"left out, for their environment is not there (run `make trainers`): {', '.join(left_out)}")
    if not can_cut:
        print("no network is cut: this computer lets nobody make a network namespace")
    print(f"seed {wanted.seed}", flush=True)
    shutil.rmtree(_FOLDER, ignore_errors=True)
    wrong, happened = 0, Counter[str]()
    for part in parts:
        until = time.monotonic() + wanted.minutes * 60
        wrong += _lives(part, wanted.kills, until, Random(f"{wanted.seed} {part.name}"), can_cut, happened)
    for nodes in (int(size) for size in wanted.ready.split(",") if size):
        wrong += _ready(nodes)
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu_s = sum(one.ru_utime + one.ru_stime for one in (own, others))
    words = ", ".join(f"{many} {what}" for what, many in happened.most_common())
    print(f"{happened.total()} disturbances: {words or 'none'}")
    print(f"broken promises: {wrong}; {cpu_s:.0f} s of CPU, load {os.getloadavg()[1]:.1f}")
    return int(wrong > 0)


def _lives(part: Part, count: int, until: float, lot: Random, can_cut: bool, every: Counter[str]) -> int:
    """Lives gangs of a part until so many disturbances came, adds them to `every`, and counts broken promises."""
    name, wrong, happened, number, began = part.name, 0, Counter[str](), 0, time.monotonic()
    with gang_ground(_FOLDER / name, _SPEED[part.kind]) as place:
        expected = undisturbed(place, part.kind, part.nodes, part.steps, part.shards)
        while happened.total() < count and time.monotonic() < until:
            number += 1
            job = GangJob(place, part.kind, part.nodes, f"{name}-{number}", part.least)
            disturbances = Disturbances(job, lot, can_cut, _LONGEST_CUT_S[part.kind])
            most = min(_EACH_LIFE, count - happened.total())
            life = lived(place, job, part.steps, disturbances, most, expected)
            happened += life.happened
            wrong += _show(f"{name}, life {number}", life.wrong)
            words = ", ".join(f"{many} {what}" for what, many in sorted(life.happened.items()))
            grown = f", grown {life.grown} times" if part.least < part.nodes else ""
            figures = f"{life.rounds} rounds{grown}, {life.vms} VMs, {life.moves} moves, {life.seconds:.0f} s"
            print(f"{name}, life {number}: {words or 'nothing'}; {figures}", flush=True)
        differences, sums = money_wrong(place)
        wrong += _show(f"{name}, money", differences)
        took = f"{time.monotonic() - began:.0f} s, load {os.getloadavg()[1]:.1f}"
        print(
            f"{name}: {number} lives, {happened.total()} disturbances, the bill / the ledger {sums}; {took}", flush=True
        )
    every += happened
    return wrong


def _ready(nodes: int) -> int:
    with gang_ground(_FOLDER / f"ready-{nodes}", _READY_SPEED) as place:
        start_s, again_s, wrong = ready_again(place, nodes)
    ratio = again_s / start_s
    print(f"ready again after one of {nodes} was lost: {again_s:.1f} s, one VM's start {start_s:.1f} s: {ratio:.2f}")
    wrong += [f"{ratio:.2f} times one VM's start is over 1.2"] if ratio > 1.2 else []
    return _show(f"ready again, {nodes}", wrong)


def _show(what: str, sentences: Sequence[str]) -> int:
    for sentence in sentences:
        print(f"{what}: WRONG, {sentence}", flush=True)
    return len(sentences)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
