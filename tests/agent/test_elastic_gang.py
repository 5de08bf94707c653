"""Rounds of a job that runs with the VMs that can be had: each round has its own number of VMs, and places in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.agent.gang import Gang, gang_of, is_standing_by, of_round, word
from tests.agent.gang_parts import PartsGang, recorded_layout
from tests.agent.loaded_agents import LoadedAgents
from tests.agent.test_gang import WORKS, _end


@pytest.fixture
def three(tmp_path: Path, agent_file: Path, loaded: LoadedAgents) -> Iterator[Gang]:
    with gang_of(3, tmp_path, agent_file, loaded) as gang:
        gang.order([sys.executable, "-u", "-c", WORKS], gang={"least": "2"})
        gang.boot()
        yield gang


def _go(gang: Gang, number: int, nodes: Sequence[int]) -> None:
    """Lets a round begin on these nodes, once they stand by for it."""
    for node in nodes:
        gang.guards[node].wait_for("heartbeat", is_standing_by(number))
    for rank, node in enumerate(nodes):
        gang.guards[node].go = word(number, [gang.addresses[one] for one in nodes], rank=rank)


def _own(gang: Gang, node: int, number: int) -> dict[str, Any]:
    """Ends the command of a node in this round with success; returns the variables that it had."""
    _end(gang.vms[node], number, 0)
    end = gang.guards[node].wait_for("exit")
    own: dict[str, Any] = json.loads(end["output"][-1].rsplit(" ", 1)[0])[1]
    return own


def test_a_round_has_its_own_places(three: Gang) -> None:
    """The others begin without the first node, with new places, and the launcher's variables are of that round."""
    _go(three, 1, [0, 1, 2])
    starts = three.all("start", of_round(1))
    assert [start["rank"] for start in starts] == [0, 1, 2]
    three.vms[0].close()
    for node, publishes in ((1, True), (2, False)):
        three.guards[node].regroup = {"round": 2, "publishes": publishes}
    _go(three, 2, [1, 2])
    for rank, node in enumerate((1, 2)):
        start = three.guards[node].wait_for("start", of_round(2))
        assert (start["rank"], start["run"]) == (rank, 2)
    for rank, node in enumerate((1, 2)):
        own = _own(three, node, 2)
        assert own["COSTGUARD_NODE_RANK"] == str(rank)
        assert own["COSTGUARD_NODES"] == "2"
        assert own["COSTGUARD_NODE_ADDRESSES"] == ",".join(three.addresses[1:])
        assert own["PET_RDZV_ENDPOINT"] == f"{three.addresses[1]}:29400"
        assert own["MASTER_ADDR"] == three.addresses[1]


def test_a_vm_that_comes_later_joins_the_next_round(three: Gang) -> None:
    """It stands by while the others run, and all of them begin the next round together."""
    _go(three, 1, [0, 2])
    assert [three.guards[node].wait_for("start")["rank"] for node in (0, 2)] == [0, 1]
    late = three.guards[1].wait_for("heartbeat", is_standing_by(1), count=3)
    assert "rank" not in late
    assert "start" not in three.guards[1].kinds()
    for node, guard in enumerate(three.guards):
        guard.regroup = {"round": 2, "publishes": node == 0}
    _go(three, 2, [0, 1, 2])
    starts = three.all("start", of_round(2))
    assert [start["rank"] for start in starts] == [0, 1, 2]


def test_a_word_that_does_not_fit_the_job_begins_nothing(three: Gang) -> None:
    """It needs as many VMs as the least, and a place that the round has."""
    guard, addresses = three.guards[0], three.addresses
    guard.wait_for("heartbeat", is_standing_by(1))
    for wrong in (word(1, addresses[:1], rank=0), word(1, addresses), word(1, addresses[:2], rank=2)):
        guard.go = wrong
        count = len([one for one in guard.events if one["kind"] == "heartbeat"])
        guard.wait_for("heartbeat", is_standing_by(1), count=count + 3)
        assert "start" not in guard.kinds()


def test_a_node_that_stays_publishes_what_the_lost_first_one_had_uploaded(tmp_path: Path) -> None:
    """It does so where the guard says it. In the next round it is the first, and publishes what it saves then."""
    spread = recorded_layout("dcp-nodes", 2)

    def layout(step: int) -> list[dict[str, bytes]]:
        first, second = spread(step)
        return [dict(first), dict(second)] if step == 10 else [{}, {**first, **second}]

    gang = PartsGang(tmp_path, 2, layout)
    gang.ready()
    gang.begin()
    gang.save(10)
    for _ in range(8):
        gang.nodes[0].travel.look(False)
    while gang.nodes[1].travel.look(True):
        pass
    assert gang.look() == []
    for is_first, steps in ((False, []), (True, [10])):
        gang.restart(1)
        gang.nodes[1].travel.publish_earlier(lambda _: None, is_first)
        assert [one.step for one in gang.look()] == steps
    best = gang.look()[0]
    gang.round += 1
    gang.prepare(1, best, rank=0, addresses=["10.0.0.6"])
    gang.save(20, [1])
    for _ in range(8):
        gang.nodes[1].travel.look(False)
    gang.restart(1)
    for _ in range(8):
        gang.nodes[1].travel.look(True)
    assert [one.step for one in gang.look()] == [20, 10]
