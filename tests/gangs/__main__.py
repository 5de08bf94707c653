"""Disturbs gangs of real trainings on the simulated cloud, with a real guard and real agents: `make gangs`, or
`make gangs ARGS="--kills 20 --nodes 2,4 --kinds plain"`.
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
from random import Random

from tests.gangs import cut
from tests.gangs.disturb import Disturbances
from tests.gangs.job import KINDS, GangJob
from tests.gangs.life import gang_ground, lived, money_wrong, ready_again, undisturbed
from tests.trainers.bench_client import PYTHON, ROOT

_FOLDER = ROOT / ".cache" / "gangs"
_STEPS = {"plain": 60, "torch": 30, "jax": 30}
# Of the fleet's clock: where a lost VM is not there again within five minutes of it, the gang moves as a whole.
_SPEED = {"plain": 10.0, "torch": 5.0, "jax": 5.0}
_LONGEST_CUT_S = {"plain": 10.0, "torch": 5.0, "jax": 5.0}  # PyTorch's and JAX's own patience is of minutes
_READY_SPEED = 4.0
_EACH_LIFE = 8


def _main(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gangs", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="disturbances in all (default: 200)")
    parser.add_argument("--nodes", default="2,4,8", help="sizes of gangs (default: 2,4,8)")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of trainings (default: {','.join(KINDS)})")
    parser.add_argument("--minutes", type=float, default=120, help="begin no other life after these (default: 120)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments; their effect also depends on the machine")
    parser.add_argument("--no-ready", action="store_true", help="do not measure how soon a gang is ready again")
    wanted = parser.parse_args(given)
    can_cut = cut.enter("tests.gangs", given)
    kinds = [kind for kind in wanted.kinds.split(",") if kind == "plain" or PYTHON.exists()]
    if left_out := set(wanted.kinds.split(",")) - set(kinds):
        print(f"left out, for their environment is not there (run `make trainers`): {', '.join(sorted(left_out))}")
    if not can_cut:
        print("no network is cut: this computer lets nobody make a network namespace")
    sizes = [int(size) for size in wanted.nodes.split(",")]
    shutil.rmtree(_FOLDER, ignore_errors=True)
    groups = [(kind, nodes) for nodes in sizes for kind in kinds]
    of_a_group = -(-wanted.kills // max(1, len(groups)))
    until = time.monotonic() + wanted.minutes * 60
    wrong = 0
    for kind, nodes in groups:
        wrong += _lives(kind, nodes, of_a_group, until, Random(f"{wanted.seed} {kind} {nodes}"), can_cut)
    for nodes in () if wanted.no_ready else sizes:
        wrong += _ready(nodes)
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu_s = sum(one.ru_utime + one.ru_stime for one in (own, others))
    print(f"broken promises: {wrong}; {cpu_s:.0f} s of CPU, load {os.getloadavg()[1]:.1f}")
    return int(wrong > 0)


def _lives(kind: str, nodes: int, count: int, until: float, lot: Random, can_cut: bool) -> int:
    """Lives gangs of one kind and size until so many disturbances came, and says how many promises were broken."""
    name, wrong, happened, number = f"{kind}-{nodes}", 0, Counter[str](), 0
    with gang_ground(_FOLDER / name, _SPEED[kind]) as place:
        expected = undisturbed(place, kind, nodes, _STEPS[kind])
        while happened.total() < count and time.monotonic() < until:
            number += 1
            job = GangJob(place, kind, nodes, f"{name}-{number}")
            disturbances = Disturbances(job, lot, can_cut, _LONGEST_CUT_S[kind])
            most = min(_EACH_LIFE, count - happened.total())
            life = lived(place, job, _STEPS[kind], disturbances, most, expected)
            happened += life.happened
            wrong += _show(f"{name}, life {number}", life.wrong)
            words = ", ".join(f"{many} {what}" for what, many in sorted(life.happened.items()))
            figures = f"{life.rounds} rounds, {life.vms} VMs, {life.moves} moves, {life.seconds:.0f} s"
            print(f"{name}, life {number}: {words or 'nothing'}; {figures}", flush=True)
        differences, sums = money_wrong(place)
        wrong += _show(f"{name}, money", differences)
        print(f"{name}: {number} lives, {happened.total()} disturbances, the bill / the ledger {sums}", flush=True)
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
