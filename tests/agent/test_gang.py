"""Rounds of a job of several VMs: real agents, and a guard that lets them begin and regroup."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.agent.gang import SECRET, Gang, gang_of, is_standing_by, of_round, pid_of, word
from tests.agent.loaded_agents import LoadedAgents
from tests.agent.vm import Vm, wait_until_unlocked
from tests.waiting import until

from costguard_vm.agent.gang.member import GangMember
from costguard_vm.agent.settings import AttemptSettings
from costguard_vm.agent.state import SavedState

# Says what it was given, and ends as the file in its folder says: the round's number, then a code.
WORKS = """
import json, os, pathlib, sys, time
own = {name: os.environ.get(name) for name in ("COSTGUARD_NODE_RANK", "COSTGUARD_NODES", "COSTGUARD_ROUND",
       "COSTGUARD_NODE_ADDRESSES", "PET_RDZV_ENDPOINT", "PET_RDZV_ID", "NCCL_SOCKET_IFNAME", "MASTER_ADDR")}
number = os.environ["COSTGUARD_ROUND"]
print(json.dumps([sys.argv[1:], own]), os.environ["COSTGUARD_GANG_SECRET"], flush=True)
with open("starts", "a") as file:
    file.write(number + "\\n")
end = pathlib.Path("end-" + number)
while not end.exists():
    time.sleep(0.01)
sys.exit(int(end.read_text()))
"""


@pytest.fixture
def pair(tmp_path: Path, agent_file: Path, loaded: LoadedAgents) -> Iterator[Gang]:
    with gang_of(2, tmp_path, agent_file, loaded) as gang:
        yield gang


def _begin(gang: Gang, script: str = WORKS, **more: Any) -> None:
    gang.order([sys.executable, "-u", "-c", script], **more)
    gang.boot()
    gang.go(1)
    gang.all("start", of_round(1))


def _end(vm: Vm, number: int, code: int) -> None:
    path = vm.work / f"end-{number}"
    path.with_suffix(".new").write_text(str(code))
    path.with_suffix(".new").rename(path)


def _starts(vm: Vm, count: int = 0) -> list[str]:
    """Returns the rounds that began, once there are `count` of them."""
    starts = vm.work / "starts"
    until(lambda: starts.exists() and len(starts.read_text().splitlines()) >= count)
    return starts.read_text().split()


def test_nothing_starts_before_the_guards_word(pair: Gang) -> None:
    """Each says which round it is ready for and where it is; then each has its place, and the secret is nowhere."""
    pair.order([sys.executable, "-u", "-c", WORKS])
    pair.boot()
    for guard, address in zip(pair.guards, pair.addresses, strict=True):
        waiting = guard.wait_for("heartbeat", is_standing_by(1), count=3)
        assert waiting["address"] == address
        assert waiting["is_running"] is False
        assert "start" not in guard.kinds()
    pair.go(1, resume_from="gs://lab/step-3", step=3, arguments=["--from", "gs://lab/step-3"])
    starts, rounds = pair.all("start"), set()
    assert [start["checkpoint"]["resume_from"] for start in starts] == ["gs://lab/step-3"] * 2
    for node, (vm, guard) in enumerate(zip(pair.vms, pair.guards, strict=True)):
        _end(vm, 1, 0)
        end = guard.wait_for("exit")
        assert (end["code"], end["asked"], end["round"]) == (0, None, 1)
        given, hidden = end["output"][0].rsplit(" ", 1)
        assert hidden == "***"
        arguments, own = json.loads(given)
        assert arguments == ["--from", "gs://lab/step-3"]
        assert own["COSTGUARD_NODE_RANK"] == str(node)
        assert own["COSTGUARD_NODES"] == "2"
        assert own["COSTGUARD_NODE_ADDRESSES"] == ",".join(pair.addresses)
        assert own["PET_RDZV_ENDPOINT"] == f"{pair.addresses[0]}:29400"
        assert own["MASTER_ADDR"] == pair.addresses[0]
        rounds.add(own["PET_RDZV_ID"])
        assert own["NCCL_SOCKET_IFNAME"] == "lo"
        vm.finished()
        assert not [
            path for path in vm.folder.rglob("*") if path.is_file() and SECRET in path.read_text(errors="replace")
        ]
        assert SECRET not in json.dumps(guard.events)
    assert len(rounds) == 1  # torchrun finds those with the same one alone


def test_a_round_that_fails_is_no_end(pair: Gang) -> None:
    """The VM stays and waits; both begin the next round from what the guard names, and the first end counts there."""
    _begin(pair)
    _end(pair.vms[1], 1, 3)
    ended = pair.guards[1].wait_for("round_ended")
    assert (ended["round"], ended["reason"], ended["code"], ended["asked"]) == (1, "exited", 3, None)
    assert ended["output"]
    pair.guards[1].wait_for("heartbeat", lambda event: event.get("phase") == "round_ended")
    pair.regroup(2)
    other = pair.guards[0].wait_for("round_ended")
    assert (other["signal"], other["asked"], other["was_killed"]) == (signal.SIGTERM, "regroup", False)
    pair.go(2, arguments=["--from", "b"])
    starts = pair.all("start", of_round(2))
    assert [start["run"] for start in starts] == [2, 2]
    for vm in pair.vms:
        _end(vm, 2, 0)
    assert [end["code"] for end in pair.all("exit")] == [0, 0]
    assert [json.loads(end["output"][0].rsplit(" ", 1)[0])[0] for end in pair.all("exit")] == [["--from", "b"]] * 2
    assert [_starts(vm) for vm in pair.vms] == [["1", "2"]] * 2
    for guard in pair.guards:
        assert guard.kinds().count("round_ended") == 1


def test_words_again_and_of_older_rounds_change_nothing(pair: Gang) -> None:
    """The guard repeats its words, and one that was late on its way comes after a newer one."""
    _begin(pair)
    assert [_starts(vm, 1) for vm in pair.vms] == [["1"]] * 2
    pair.regroup(3)
    for guard in pair.guards:
        guard.wait_for("heartbeat", is_standing_by(3))
        guard.regroup = {"round": 2}
        guard.go = word(2, pair.addresses)
        guard.wait_for_requests(5)
        guard.go = word(1, pair.addresses)
        guard.wait_for_requests(5)
    assert [_starts(vm, 1) for vm in pair.vms] == [["1"]] * 2
    pair.go(3)
    pair.all("start", of_round(3))
    for guard in pair.guards:  # another word for the round that runs
        guard.go = word(3, pair.addresses[::-1], resume_from="gs://lab/other")
        guard.wait_for_requests(5)
    for vm in pair.vms:
        _end(vm, 3, 0)
    assert [end["run"] for end in pair.all("exit")] == [2, 2]
    assert [_starts(vm) for vm in pair.vms] == [["1", "3"]] * 2


def test_a_word_to_begin_a_later_round_ends_this_one(pair: Gang) -> None:
    """The word to regroup may be lost on its way."""
    _begin(pair)
    for guard in pair.guards:
        guard.go = word(2, pair.addresses)
    pair.all("start", of_round(2))
    assert [guard.wait_for("round_ended")["asked"] for guard in pair.guards] == ["regroup", "regroup"]


def test_a_later_round_before_the_command_starts(pair: Gang) -> None:
    """The VM that waits for the others does not start a round that is over."""
    pair.order([sys.executable, "-u", "-c", WORKS])
    pair.vms[0].boot()
    pair.guards[0].wait_for("heartbeat", is_standing_by(1))
    pair.guards[0].go = word(1, pair.addresses)
    state = pair.vms[0].home / "attempts" / pair.vms[0].attempt / "state.json"
    until(lambda: "checked" in state.read_text())
    pair.guards[0].go = None
    pair.guards[0].regroup = {"round": 2}
    pair.guards[0].wait_for("heartbeat", is_standing_by(2))
    pair.vms[1].boot()
    pair.guards[1].wait_for("heartbeat", is_standing_by(1))  # a VM that came later knows no round
    for guard in pair.guards:
        guard.go = word(2, pair.addresses)
    pair.all("start", of_round(2))
    assert [_starts(vm, 1) for vm in pair.vms] == [["2"]] * 2


def test_a_cancel_between_rounds_is_the_end(pair: Gang) -> None:
    """The exit is that of the command, in the same run."""
    _begin(pair)
    _end(pair.vms[0], 1, 4)
    pair.guards[0].wait_for("round_ended")
    pair.guards[0].is_to_cancel = True
    end = pair.guards[0].wait_for("exit")
    assert (end["code"], end["asked"], end["run"]) == (4, "cancel", 1)
    assert pair.vms[0].finished() == 0


def test_a_command_that_ignores_the_regroup_is_killed(pair: Gang) -> None:
    """SIGKILL comes after the grace of a cancel."""
    _begin(
        pair,
        "import signal, time\nsignal.signal(signal.SIGTERM, lambda *_: None)\ntime.sleep(1000)",
        cancel_grace_s=0.5,
    )
    pair.guards[0].regroup = {"round": 2}
    ended = pair.guards[0].wait_for("round_ended")
    assert (ended["signal"], ended["was_killed"], ended["asked"]) == (signal.SIGKILL, True, "regroup")


KILLS = ("standing by", "running", "after the round", "after the regroup")


@pytest.mark.parametrize("moment", KILLS)
def test_an_agent_that_is_killed_goes_on(pair: Gang, moment: str) -> None:
    """Each round begins once and ends once, whatever the moment of the kill."""
    vm, guard = pair.vms[1], pair.guards[1]
    pair.order([sys.executable, "-u", "-c", WORKS])
    pair.boot()
    if moment == "standing by":
        guard.wait_for("heartbeat", is_standing_by(1))
        vm.crash()
        vm.boot()
    pair.go(1)
    pair.all("start", of_round(1))
    if moment == "running":
        vm.crash()
        vm.boot()
        guard.wait_for("boot", count=2)
    _end(vm, 1, 3)
    ended = guard.wait_for("round_ended")
    if moment == "after the round":
        guard.wait_for("heartbeat", lambda event: event["seq"] > ended["seq"] and event.get("phase") == "round_ended")
        last = guard.events[-1]["seq"]
        vm.crash()
        vm.boot()
        guard.wait_for("heartbeat", lambda event: event["seq"] > last and event.get("phase") == "round_ended")
    pair.regroup(2)
    if moment == "after the regroup":
        guard.wait_for("heartbeat", is_standing_by(2))
        vm.crash()
        vm.boot()
    pair.go(2)
    pair.all("start", of_round(2))
    for one in pair.vms:
        _end(one, 2, 0)
    assert [end["code"] for end in pair.all("exit")] == [0, 0]
    assert _starts(vm) == ["1", "2"]
    kinds = [kind for kind in guard.kinds_once() if kind not in ("boot", "stopping")]
    assert kinds == ["start", "round_ended", "start", "exit"]


def test_a_word_outlives_the_agent_but_for_its_secret(pair: Gang) -> None:
    """An agent that was killed with it in hand asks again, and begins once it has the secret."""
    pair.order([sys.executable, "-u", "-c", WORKS], poll_s=2.0)
    vm, guard = pair.vms[0], pair.guards[0]
    vm.boot()
    guard.wait_for("heartbeat", is_standing_by(1))
    guard.go = word(1, pair.addresses, step=7)
    state = vm.home / "attempts" / vm.attempt / "state.json"
    until(lambda: state.exists() and '"go": {"round": 1' in state.read_text())
    vm.crash()
    assert SECRET not in state.read_text()
    guard.go = None
    vm.boot()
    boot = guard.wait_for("boot", count=2)
    guard.wait_for("heartbeat", lambda event: event["seq"] > boot["seq"] and is_standing_by(1)(event), count=2)
    pair.vms[1].boot()
    pair.go(1, step=8)  # the first word of a round counts
    assert pair.all("start")[0]["checkpoint"]["step"] == 7


def test_a_runner_that_was_killed_ends_the_round_alone(pair: Gang) -> None:
    """The end of the command is unknown, and the VM begins the next round all the same."""
    _begin(pair)
    run = pair.vms[0].run_folders()[0]
    os.kill(int(Path(f"/proc/{pid_of(pair.vms[0])}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    assert pair.guards[0].wait_for("round_ended")["reason"] == "cut_off"
    wait_until_unlocked(run / "lock")
    pair.regroup(2)
    pair.go(2)
    pair.all("start", of_round(2))


def test_success_before_the_regroup_is_the_end(pair: Gang) -> None:
    """Nothing is done twice; the guard, which sees the other VMs too, decides whether the job has succeeded."""
    _begin(pair)
    pair.vms[0].crash()
    _end(pair.vms[0], 1, 0)
    wait_until_unlocked(pair.vms[0].run_folders()[0] / "lock")
    pair.guards[0].regroup = {"round": 2}
    pair.vms[0].boot()
    end = pair.guards[0].wait_for("exit")
    assert (end["code"], end["asked"]) == (0, None)


SUCCEEDS_ON_SIGTERM = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", flush=True)
time.sleep(1000)
"""


def test_success_that_the_regroup_asked_for_is_none(pair: Gang) -> None:
    """Many trainings save on SIGTERM and end with code 0."""
    _begin(pair, SUCCEEDS_ON_SIGTERM)
    pair.all("heartbeat", lambda event: event["output"] == ["ready"])
    pair.regroup(2)
    for ended in pair.all("round_ended"):
        assert (ended["code"], ended["asked"]) == (0, "regroup")
    pair.all("heartbeat", is_standing_by(2))


SAVES = """
import os, pathlib, time
asked = pathlib.Path(os.environ["COSTGUARD_SAVE_REQUEST"])
print("ready", flush=True)
while not asked.exists():
    time.sleep(0.01)
print("saved", asked.read_text(), flush=True)
while True:
    time.sleep(1)
    if asked.read_text() != "": print("asked", asked.read_text(), flush=True)
"""


def test_a_notice_to_another_vm_asks_for_one_save(pair: Gang) -> None:
    """The guard repeats its word, and the command is asked once; without `save_on` it is not asked at all."""
    _begin(pair, SAVES, save_on="file", save_every_s=100000.0)
    guard = pair.guards[0]
    guard.save = {"round": 1}
    first = guard.wait_for("heartbeat", lambda event: len(event["output"]) > 2)
    later = guard.wait_for("heartbeat", lambda event: len(event["output"]) > 4)
    numbers = {line.split()[-1] for event in (first, later) for line in event["output"][1:]}
    assert len(numbers) == 1
    assert pair.guards[1].wait_for("heartbeat", lambda event: event["output"])["output"] == ["ready"]


def test_no_start_is_reported_while_the_next_round_is_noted(tmp_path: Path) -> None:
    """A heartbeat of that moment would report the last round's command as the next round's, which then never begins."""
    noted: list[tuple[int, bool]] = []

    class NotingState(SavedState):
        def save(self) -> None:
            noted.append((self.run, member.is_between_rounds))
            super().save()

    settings = AttemptSettings(gang={"node": "0", "nodes": "2"})
    standing: Any = SimpleNamespace(until=lambda *_: {"round": True})
    nothing: Any = None
    member = GangMember(
        settings, NotingState(str(tmp_path)), nothing, standing, nothing, nothing, lambda ended: member.hear(_REGROUP)
    )
    assert member.goes_on({"reason": "exited", "code": 1, "ended_at": "2026-11-29T12:00:00.000Z"})
    assert noted == [(1, True), (2, True)]


_REGROUP = {"regroup": {"round": 2}}
