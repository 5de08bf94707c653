"""Gangs killed at random moments: what they leave, and what their framework makes of it.

Each run stays in its folder with `truth.json`, so that the judge can be asked about it again and again.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.trainers.gangs.client import GangRun, GangSave, Moment, Server, Shape, serving

_TRIES = 6  # at a kill within a save, which may end before it is hit
_MOST_THEN_S = 0.3  # the time that the ranks that are left go on


@dataclass(frozen=True)
class GangKind:
    """A way in which several processes train and save."""

    name: str
    module: str
    kind: str  # of that module
    title: str
    shape: Shape
    kills: int


KINDS = (
    GangKind("dcp-nodes", "torch_sharded", "dcp", "PyTorch DCP, 2 nodes of 2", Shape(4, 2), 20),
    GangKind("dcp-shared", "torch_sharded", "dcp", "PyTorch DCP, a shared folder", Shape(3, 1, True), 12),
    GangKind("dcp-async", "torch_sharded", "dcp-async", "PyTorch DCP in the background", Shape(2, 1), 12),
    GangKind("orbax", "orbax_hosts", "orbax-shared", "Orbax, 2 hosts, a shared folder", Shape(2, 1, True), 18),
    GangKind("lightning", "lightning_sharded", "lightning-sharded", "Lightning, sharded, 2 nodes", Shape(2, 1), 16),
    GangKind("accelerate", "accelerate_fsdp", "accelerate-fsdp", "Accelerate with FSDP, 2 nodes of 2", Shape(4, 2), 14),
    GangKind("deepspeed-1", "deepspeed_zero", "deepspeed-1", "DeepSpeed ZeRO 1, 2 nodes of 2", Shape(4, 2), 14),
    GangKind(
        "deepspeed-3", "deepspeed_zero", "deepspeed-3", "DeepSpeed ZeRO 3, a shared folder", Shape(2, 1, True), 10
    ),
)


def kill_all(kinds: Sequence[GangKind], folder: Path, seed: int, say: Callable[[str], None]) -> None:
    """Leaves a folder `NAME-NUMBER` a kill. Each module is imported once."""
    for module in dict.fromkeys(kind.module for kind in kinds):
        with serving(module, folder) as server:
            for kind in (kind for kind in kinds if kind.module == module):
                lot = Random(f"{seed} {kind.name}")
                save_s, saves = _usual(kind, server, folder)
                for number in range(kind.kills):
                    home = folder / f"{kind.name}-{number}"
                    run = _killed(kind, server, home, lot, save_s, saves)
                    (home / "truth.json").write_text(json.dumps(_truth(kind, server, home, run), indent=1))
                say(f"{kind.title}: {kind.kills} kills")


def _usual(kind: GangKind, server: Server, folder: Path) -> tuple[float, int]:
    """Returns how long a save takes, in seconds, and how many there are. It trains twice: the first fills caches."""
    for _ in range(2):
        home = folder / f"{kind.name}-usual"
        shutil.rmtree(home, ignore_errors=True)
        run = server.train(kind.kind, kind.shape, home)
        shutil.rmtree(home, ignore_errors=True)
        if not run.is_done or run.error:
            raise RuntimeError(f"{kind.name} does not train: {run.error}")
    return statistics.median(end - begin for begin, end in zip(run.begins, run.ends, strict=True)), len(run.begins)


def _killed(kind: GangKind, server: Server, home: Path, lot: Random, save_s: float, saves: int) -> GangRun:
    """Kills a rank, a node or all within a save. A training that was over sooner is begun again."""
    for attempt in range(_TRIES):
        shutil.rmtree(home, ignore_errors=True)
        ranks = range(kind.shape.ranks)
        node = lot.randrange(kind.shape.nodes)
        lost = lot.choice(
            [
                (lot.choice(ranks),),
                tuple(rank for rank in ranks if rank // kind.shape.per_node == node),
                tuple(ranks),
            ]
        )
        number = lot.choice([0, *range(1, saves), *range(1, saves)])  # seldom the first, before which is nothing
        after_s = lot.random() * save_s * 1.2 * 0.8**attempt
        moment = Moment(lot.choice(ranks), number, after_s, lost, lot.random() * _MOST_THEN_S)
        run = server.train(kind.kind, kind.shape, home, moment)
        if run.is_killed:
            return run
    raise RuntimeError(f"{kind.name} could not be killed in {_TRIES} tries: {run.error}")


def _truth(kind: GangKind, server: Server, home: Path, run: GangRun) -> dict[str, object]:
    """The saves, the newest first, with what the framework makes of all nodes' files together: `loads` as it was saved,
    does not, or nobody asked, as a newer one loads.
    """
    union = home / "union"
    union.mkdir()
    for folder in reversed(dict.fromkeys(kind.shape.folders(home))):
        shutil.copytree(folder, union, dirs_exist_ok=True)
    saves: list[dict[str, object]] = []
    has_loaded = False
    for save in reversed(run.saves):
        loads = None if has_loaded else _loads(kind, server, union, save)
        has_loaded = has_loaded or bool(loads)
        is_done = len(save.done) == kind.shape.ranks
        saves.append({"name": save.name, "step": save.step, "is_done": is_done, "loads": loads})
    shutil.rmtree(union)
    shape = kind.shape
    return {"nodes": shape.nodes, "per_node": shape.per_node, "is_shared": shape.is_shared, "saves": saves}


def _loads(kind: GangKind, server: Server, union: Path, save: GangSave) -> bool:
    """Says whether each rank gets what it saved. A save that some rank had not begun holds nothing of it."""
    if len(save.digests) < kind.shape.ranks or not (union / save.name).exists():
        return False
    return server.load(kind.kind, kind.shape, union, save.name)[0] == save.digests
