"""A VM as a member of a gang: it waits for each round, runs the command in it, and waits for the guard's word.

A round that ends without success is no end of the attempt: the VM stays, with its code, image and data, and begins the
next round from the checkpoint that the guard names for all. An agent that was killed goes on from state.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from costguard_vm.agent.calls import Metadata
from costguard_vm.agent.failures import Trouble, patiently
from costguard_vm.agent.files import say, utc, write
from costguard_vm.agent.runner import signal_group
from costguard_vm.agent.settings import AttemptSettings, GangPlace, NotStarted, Unwanted, place_of
from costguard_vm.agent.stand_by import StandBy
from costguard_vm.agent.state import SavedState
from costguard_vm.agent.stopping import CommandStop
from costguard_vm.agent.transfers.preparation import Stage

from .firewall import VmNetwork, unreached_text
from .interfaces import interface_of
from .launchers import RoundFacts, host_file, launch_command, launch_variables
from .peers import HIGH_PORT, SILENT, PeerCheck
from .rounds import Rounds

REGROUP, ROUND_ENDED = "regroup", "round_ended"
NEVER = float("inf")


class RoundOver(Unwanted):
    """The guard named a later round before the command of this one was started."""


class PeersMissing(NotStarted):
    """Other VMs of the gang cannot be reached. `unreached` is for the event."""

    unreached: list[dict[str, Any]] = []


class GangMember:
    """Does nothing in a job of one VM. `end_round` brings away what a round left, and reports its end."""

    def __init__(
        self,
        settings: AttemptSettings,
        state: SavedState,
        stop: CommandStop,
        standing: StandBy,
        metadata: Metadata,
        send: Callable[..., None],
        end_round: Callable[[dict[str, Any]], None],
    ) -> None:
        self._settings, self._state, self._stop, self._standing = settings, state, stop, standing
        self._metadata, self._send, self._end_round = metadata, send, end_round
        self._place = place_of(settings.gang)
        self._rounds = Rounds(state, self._place or GangPlace(0, 1))
        self._address, self._secret = "", ""
        self._is_ready = False  # the word to begin was taken by this process
        self._deadline = NEVER
        self._check: PeerCheck | None = None
        self.save_now: Callable[[], object] = lambda: None
        # Before this node is ready for a round; the second says whether it publishes what others left, too.
        self.before: Callable[[Callable[[float], None], bool], object] = lambda *_: None
        # While it holds, no start is reported: what ran before would count as the start of the next round.
        self.is_between_rounds = False

    @property
    def is_one(self) -> bool:
        return self._place is not None

    @property
    def secret(self) -> list[str]:
        """Returns what no output may show."""
        return [self._secret] if self._secret else []

    def fields(self) -> dict[str, Any]:
        """Returns the fields of each of its events."""
        if self._place is None:
            return {}
        rank = self._rounds.rank if self._place.is_elastic else None
        placed = {} if rank is None else {"rank": rank}
        return {"round": self._rounds.number, **placed, **({"address": self._address} if self._address else {})}

    def hear(self, answer: Mapping[str, Any]) -> None:
        """Takes an answer of the guard's: the words to begin, to regroup and to save."""
        if self._place is None:
            return
        for name, take in (("go", self._rounds.take_go), (REGROUP, self._take_regroup), ("save", self._take_save)):
            if isinstance(answer.get(name), dict):
                take(answer[name])

    def _take_regroup(self, word: Mapping[str, Any]) -> None:
        self._rounds.take_regroup(word.get("round"), word.get("publishes"))

    def _take_save(self, word: Mapping[str, Any]) -> None:
        is_running = word.get("round") == self._rounds.number and self._state.of_runner("command.json")
        if is_running and self._rounds.once("saved"):
            threading.Thread(target=self.save_now, daemon=True).start()

    def hold(self, seconds: float) -> None:
        """Waits for something that the command needs. Raises RoundOver, and what `CommandStop.hold` raises."""
        if self._is_ready and self._rounds.is_over:
            raise RoundOver(f"round {self._rounds.number} is over before the command was started")
        self._stop.hold(seconds)

    def join(self, stage: Stage, step_file: str) -> None:
        """Makes a stage wait for its round, and for the other members."""
        if self._place is not None:
            stage.stand_by = lambda: self._stand_by(stage)
            self._leave_outputs(stage)
            stage.reach_peers = lambda: self._reach_peers(stage, os.path.dirname(step_file))

    def _leave_outputs(self, stage: Stage) -> None:
        """Leaves outputs and result, which all have made, to the first of the round."""
        if self._rounds.rank:
            stage.settings = stage.settings._replace(outputs={}, publish={})

    def _stand_by(self, stage: Stage) -> Mapping[str, Any]:
        if ROUND_ENDED in self._state.sent:  # the check failed, and then the agent was killed
            raise PeersMissing("the other VMs of this job could not be reached")
        self._address = self._of_metadata("instance/network-interfaces/0/ip", is_needed=True)
        self.before(self.hold, self._rounds.publishes)
        go = self._standing.until(self._begun, self.hold)
        self._is_ready, self._secret = True, go["secret"]
        self._leave_outputs(stage)
        return {name: value for name, value in go.items() if name != "secret"}

    def _begun(self) -> Mapping[str, Any]:
        """Returns the word to begin. A new VM may hear only now that it is to publish what others left before that."""
        assert self._place is not None
        if self._place.is_elastic and self._rounds.is_over and self._rounds.publishes:
            self.before(self.hold, True)
        return self._rounds.begun()

    def resumed(self, stage: Stage) -> dict[str, Any]:
        """Returns what the round resumes from, as the event's field `checkpoint`; empty in a job of one VM."""
        if self._place is None:
            return {}
        return {"looked_at": utc(), "resume_from": stage.go["resume_from"], "step": stage.go.get("step")}

    def _reach_peers(self, stage: Stage, folder: str) -> None:
        """Raises PeersMissing. Then the command has what its launcher needs."""
        assert self._place is not None
        go, settings = stage.go, self._settings
        place = self._place._replace(node=go.get("rank", self._place.node), nodes=len(go["addresses"]))
        is_first = self._rounds.once("checked")
        addresses, number = go["addresses"], go["round"]
        self._check = PeerCheck(number, place.node, addresses, self._secret, (place.port, HIGH_PORT))
        try:
            unreached = self._check.run(stage.wait, settings.peers_s)
        except OSError as problem:
            raise NotStarted(f"the other VMs of this job cannot be reached: {problem}") from None
        if unreached and is_first:
            network, names = self._network(), go.get("vms", ())
            text = unreached_text(place.node, addresses, unreached, network, settings.peers_s, names)
            missing = PeersMissing(text, any(one.why == SILENT for one in unreached))
            missing.unreached = [one._asdict() for one in unreached]
            self._rounds.undo("checked")
            raise missing
        if unreached:  # the earlier agent may have passed, with all that still answered then
            say(f"{len(unreached)} of the other VMs did not answer again")
        facts = RoundFacts(
            node=place.node,
            nodes=place.nodes,
            port=place.port,
            round=number,
            addresses=addresses,
            secret=self._secret,
            gpus=settings.gpus,
            name=_shared_name(self._secret),
            interface=interface_of(self._address),
            hosts=os.path.join(folder, "hosts"),
        )
        stage.environment.update(launch_variables(facts, [*settings.environment, *settings.secrets]))
        stage.launched_by = lambda argv: _launched(argv, facts)

    def _network(self) -> VmNetwork:
        tags = self._of_metadata("instance/tags")
        return VmNetwork(
            network=self._of_metadata("instance/network-interfaces/0/network"),
            project=self._of_metadata("project/project-id"),
            number=self._of_metadata("project/numeric-project-id"),
            tags=json.loads(tags) if tags.startswith("[") else (),
            netmask=self._of_metadata("instance/network-interfaces/0/subnetmask"),
        )

    def _of_metadata(self, key: str, is_needed: bool = False) -> str:
        try:
            return patiently(lambda: self._metadata.get(key)[0], self.hold, 0 if is_needed else 2, 1).strip()
        except Trouble:
            if is_needed:
                raise
            return ""

    def apply(self, pid: int) -> None:
        """Stops the command once the guard has named a later round: SIGTERM, and SIGKILL after its grace."""
        if self._place is None or not self._rounds.is_over or self._state.stop:
            return
        grace_s = self._settings.cancel_grace_s
        if self._rounds.note_stop(pid):
            signal_group(pid, signal.SIGTERM)
            self._send("stopping", why=REGROUP, grace_s=grace_s)
        self._deadline = min(self._deadline, time.monotonic() + grace_s)
        if time.monotonic() >= self._deadline and not self._stop.was_killed:
            self._stop.kill(pid)

    def goes_on(self, ended: Mapping[str, Any]) -> bool:
        """The command of this round has ended. Returns whether the VM goes on to another; False after a success, and
        where the command or the VM is not wanted any more.
        """
        if self._place is None or self._state.stop or self._has_succeeded(ended):
            return False
        self.is_between_rounds = True
        why = {"asked": REGROUP} if self._rounds.was_stopped(ended) else {}
        self._end_round({**ended, **why})
        self._standing.until(self._word, self._pause, ROUND_ENDED)
        if self._state.stop:
            self.is_between_rounds = False
            return False
        self.next_round()
        return True

    def next_round(self) -> None:
        if self._check is not None:
            self._check.close(HIGH_PORT)
        self._rounds.next()

    def _word(self) -> Mapping[str, Any]:
        return {"round": True} if self._state.stop or self._rounds.is_over else {}

    def _pause(self, seconds: float) -> None:
        self._stop.request_if_vm_ends()
        self._stop.wait(seconds)

    def _has_succeeded(self, ended: Mapping[str, Any]) -> bool:
        is_success = ended.get("reason") == "exited" and ended.get("code") == 0
        return is_success and not self._rounds.was_stopped(ended)


def _shared_name(secret: str) -> str:
    """Returns a name of the round that all members know, and nobody else: each has an attempt of its own."""
    return hashlib.sha256(secret.encode()).hexdigest()[:16]


def _launched(argv: Sequence[str], facts: RoundFacts) -> list[str]:
    """Returns the command that is run, for which DeepSpeed's host file is written where it needs one."""
    command = launch_command(argv, facts)
    if facts.hosts in command:
        write(facts.hosts, host_file(facts).encode())
        os.chmod(facts.hosts, 0o644)
    return command
