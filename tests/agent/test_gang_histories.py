"""Random histories of gangs whose parts of checkpoints travel: saves, looks, kills, lost VMs and rounds in any order.

At every write the bucket is judged as the guard judges it (`PartsGang.check`): whole or not listed, of one save, and
never older than before. `HISTORIES=500 pytest tests/agent/test_gang_histories.py` runs more of them.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from tests.agent.gang_parts import PartsGang, recorded_layout
from tests.crashing import Killed

HISTORIES = int(os.environ.get("HISTORIES", "16"))
KINDS = (
    ("dcp-nodes", 2),
    ("dcp-nodes", 4),
    ("deepspeed-1", 2),
    ("deepspeed-1", 4),
    ("deepspeed-3", 2),
    ("orbax", 2),
    ("lightning", 2),
    ("accelerate", 2),
)


class History:
    """A gang, and what happens to it by lot."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.lot = Random(seed)
        self.name, nodes = self.lot.choice(KINDS)
        self.gang = PartsGang(folder, nodes, recorded_layout(self.name, nodes))
        self.nodes, self.step = range(nodes), 0
        self.gang.ready()
        self.gang.begin()

    def fuse(self, share: float) -> None:
        """Sets the end of whichever agent makes one of the next writes, in a share of the cases."""
        self.gang.bucket.fuse.left = self.lot.randrange(1, 40) if self.lot.random() < share else 0

    def turn(self) -> None:
        what = self.lot.random()
        if what < 0.15 or (what < 0.2 and self.step and self.name != "orbax"):
            # Orbax's first process writes its last file once all have saved; others may not come that far.
            self.step += 5
            some = [node for node in self.nodes if self.lot.random() < 0.5]
            self.gang.save(self.step, self.nodes if what < 0.15 else some)
        elif what < 0.9:
            self._look(self.lot.choice(self.nodes))
        else:
            self._next_round()

    def _look(self, node: int) -> None:
        self.fuse(0.4)
        try:
            self.gang.nodes[node].travel.look(False)
        except Killed:
            self.gang.restart(node)
        self.gang.bucket.fuse.left = 0

    def _next_round(self) -> None:
        """Loses some VMs, ends the round on the others, and begins the next one from what the guard finds."""
        gang = self.gang
        uploaded = [step for step in range(5, self.step + 1, 5) if gang.has_all_parts(step)]
        lost = [node for node in self.nodes if self.lot.random() < 0.4]
        for node in lost:
            gang.lose(node)
        for node in self.lot.sample(self.nodes, len(self.nodes)):
            if node not in lost:
                self._end(node)
        self._make_ready()
        newest = gang.look()[0].step if gang.look() else 0
        assert newest >= max(uploaded, default=0)
        best = gang.begin()
        self.step = best.step if best is not None else 0
        if best is not None:
            saves = gang.on_disks(best)
            assert len(saves) == len(self.nodes)
            assert len(set(saves)) == 1

    def _end(self, node: int) -> None:
        self.fuse(0.3)
        try:
            self._last_looks(node)
        except Killed:
            self.gang.bucket.fuse.left = 0
            if self.lot.random() < 0.5:
                self.gang.lose(node)
            else:
                self.gang.restart(node)
                self._last_looks(node)
        self.gang.bucket.fuse.left = 0

    def _last_looks(self, node: int) -> None:
        travel = self.gang.nodes[node].travel
        while travel.look(True):
            pass
        travel.awaits()

    def _make_ready(self) -> None:
        """Each node is made ready, the first one last: the guard begins no round before all are."""
        while True:
            self.fuse(0.3)
            try:
                others = self.lot.sample(self.nodes[1:], len(self.nodes) - 1)
                self.gang.ready([*others, 0])
            except Killed:
                self.gang.bucket.fuse.left = 0
                if self.lot.random() < 0.5:
                    self.gang.lose(0)
                continue
            self.gang.bucket.fuse.left = 0
            return


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_nothing_torn_counts_and_nothing_whole_is_lost(tmp_path: Path, seed: int) -> None:
    """After any history, a save of all nodes is whole a few looks later."""
    history = History(tmp_path, seed)
    for _ in range(history.lot.randrange(10, 50)):
        history.turn()
    gang = history.gang
    gang.save(history.step + 5)
    gang.run(12)
    assert gang.look()[0].step == history.step + 5
