"""Parts of checkpoints that travel, with an agent or a VM that ends at every write: nothing torn is ever taken for
whole, and what is whole is found. Files are those of real trainers, spread over the nodes by their ranks.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.agent.gang_parts import PartsGang, recorded_layout
from tests.agent.shared_bucket import Save
from tests.checkpoints.gangs import folder_of
from tests.crashing import Killed

# The frameworks' saves, and over how many nodes; a point in so many is an end.
KINDS = {
    ("dcp-nodes", 2): 2,
    ("dcp-nodes", 4): 5,
    ("deepspeed-1", 2): 1,
    ("deepspeed-3", 4): 3,
    ("orbax", 2): 2,
    ("lightning", 2): 3,
    ("accelerate", 2): 11,
}


def _gang(folder: Path, kind: tuple[str, int]) -> PartsGang:
    """A gang in its first round, with one checkpoint at the location, and the second saved."""
    name, nodes = kind
    gang = PartsGang(folder, nodes, recorded_layout(name, nodes))
    gang.ready()
    gang.begin()
    gang.save(5)
    gang.run()
    assert _newest(gang) == 5
    gang.save(10)
    return gang


def _newest(gang: PartsGang) -> int | None:
    return next((one.step for one in gang.look()), None)


def _until_killed(gang: PartsGang, looks: Iterable[int]) -> int | None:
    """Returns the node whose agent ended; None where none did."""
    turns = iter(looks)
    node = None
    try:
        while (turn := next(turns, None)) is not None:
            node = turn
    except Killed:
        return node
    return None


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_an_agent_that_is_killed_at_any_write_goes_on(kind: tuple[str, int], tmp_path: Path) -> None:
    """The checkpoint is whole a few looks later, whichever agent it is and whatever it was about to write."""
    point = 0
    while True:
        point += KINDS[kind]
        gang = _gang(tmp_path / str(point), kind)
        gang.bucket.fuse.left = point
        killed = _until_killed(gang, gang.looks())
        if killed is None:
            break
        gang.restart(killed)
        gang.run()
        assert _newest(gang) == 10
        assert gang.saved_at(folder_of(kind[0], 10)) == Save(1, 10)
    assert point > 10


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_vm_that_is_lost_at_any_write_takes_nothing_whole_along(kind: tuple[str, int], tmp_path: Path) -> None:
    """Once all parts are at the location, the step is whole in the next round; before, the one before counts."""
    seen: set[int | None] = set()
    point = 0
    while True:
        point += KINDS[kind]
        gang = _gang(tmp_path / str(point), kind)
        gang.bucket.fuse.left = point
        killed = _until_killed(gang, gang.looks())
        if killed is None:
            break
        were_there = gang.has_all_parts(10)
        gang.lose(killed)
        others = [node for node in range(kind[1]) if node != killed]
        for _ in gang.end(others):
            pass
        gang.ready()
        seen.add(_newest(gang))
        assert _newest(gang) == 10 or not were_there
        best = gang.begin()
        assert best is not None
        assert gang.on_disks(best) == [Save(1, best.step)] * kind[1]
        assert not gang.left_over
        gang.save(10)
        gang.save(15)
        gang.run()
        assert _newest(gang) == 15
        assert not gang.left_over
    assert seen == {5, 10}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_an_end_at_any_write_while_an_earlier_round_is_published(kind: tuple[str, int], tmp_path: Path) -> None:
    """The first node's VM is lost once all parts are there; its successor is killed again and again as it begins."""
    gang = _gang(tmp_path / "whole", kind)
    for _ in gang.looks():
        if gang.has_all_parts(10):
            break
    gang.lose(0)
    for _ in gang.end(range(1, kind[1])):
        pass
    before = gang.state()
    point = 0
    while True:
        point += KINDS[kind]
        gang.back_to(before)
        gang.lose(0)
        gang.bucket.fuse.left = point
        try:
            gang.ready([0])
            gang.begin()
        except Killed:
            gang.bucket.fuse.left = 0
            gang.round = 1
            gang.lose(0)
            gang.ready()
            assert _newest(gang) == 10
            gang.begin()
            assert not gang.left_over
        else:
            break
    assert point > 10
