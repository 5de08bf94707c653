"""The rounds of a gang as one of its VMs knows them, in state.json: nothing follows from a word before it is there.

`round` is the round that this VM is ready for or runs, `wanted` the newest that the guard named, `go` the word to begin
one, without its secret, which is in memory alone: an agent that was killed before it used the word asks for it again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from costguard_vm.agent.files import own_time, say
from costguard_vm.agent.settings import GangPlace
from costguard_vm.agent.state import SavedState


class Rounds:
    """Safe for several threads: words come in the thread that talks to the guard, in any order and again and again."""

    def __init__(self, state: SavedState, place: GangPlace) -> None:
        self._state, self._place, self._lock = state, place, threading.Lock()
        self._secret: tuple[int, str] = (0, "")  # with its round

    @property
    def number(self) -> int:
        number: int = self._state.gang.get("round", 1)
        return number

    @property
    def is_over(self) -> bool:
        """Says whether the guard has named a later round than this one."""
        return bool(self._wanted > self.number)

    @property
    def _wanted(self) -> int:
        return max(self.number, int(self._state.gang.get("wanted", 0)))

    def take_go(self, go: Mapping[str, Any]) -> None:
        """The guard lets a round begin. Of one round the first word counts, and none of an older one."""
        number, addresses, secret = go.get("round"), go.get("addresses"), go.get("secret")
        rank = self._rank_in(addresses, go.get("rank")) if isinstance(addresses, list) else None
        if type(number) is not int or not isinstance(addresses, list) or rank is None or not isinstance(secret, str):
            say("a word to begin is not understood: it needs a round, an address for each VM, its rank, and a secret")
            return
        with self._lock:
            held = self._state.gang.get("go", {}).get("round", 0)
            if number < self._wanted:
                return
            if number == held:
                self._secret = (number, self._secret[1] if self._secret[0] == number else secret)
                return
            words, resume_from = go.get("arguments"), go.get("resume_from")
            kept = {
                "round": number,
                "rank": rank,
                "addresses": [str(address) for address in addresses],
                "vms": [str(name) for name in names] if isinstance(names := go.get("vms"), list) else [],
                "resume_from": resume_from if isinstance(resume_from, str) else "",
                "step": go.get("step"),
                "arguments": [word for word in words if isinstance(word, str)] if isinstance(words, list) else [],
            }
            self._note(go=kept, wanted=number)
            self._secret = (number, secret)

    def _rank_in(self, addresses: list[Any], rank: Any) -> int | None:
        """Returns this VM's place in a round; None where the word does not fit the job."""
        place = self._place
        if not place.is_elastic:
            return place.node if len(addresses) == place.nodes else None
        is_place = type(rank) is int and 0 <= rank < len(addresses)
        return rank if is_place and place.least <= len(addresses) <= place.nodes else None

    @property
    def rank(self) -> int | None:
        """Returns this VM's place in the present round; None before it is known."""
        go = self._state.gang.get("go", {})
        return go.get("rank", self._place.node) if go.get("round") == self.number else None

    def take_regroup(self, number: Any, publishes: Any = None) -> None:
        """The guard wants a later round, whatever this VM does for the present one; and this VM `publishes` first."""
        with self._lock:
            if type(number) is not int or number < self._wanted:
                return
            wanted = {"publishes": number} if publishes is True else {}
            if number > self._wanted or (wanted and self._state.gang.get("publishes") != number):
                self._note(wanted=number, **wanted)

    @property
    def publishes(self) -> bool:
        """Says whether this VM publishes what is whole of earlier rounds before it is ready for the newest."""
        if not self._place.is_elastic:
            return self._place.node == 0
        return bool(self._state.gang.get("publishes") == self._wanted)

    def begun(self) -> Mapping[str, Any]:
        """Returns the word that the newest round begins with, and its secret; empty before there is one."""
        with self._lock:
            wanted, go = self._wanted, self._state.gang.get("go", {})
            if self._state.gang.get("round") != wanted:
                self._note(round=wanted)
            is_whole = go.get("round") == wanted and self._secret[0] == wanted
            return {**go, "secret": self._secret[1]} if is_whole else {}

    def once(self, what: str) -> bool:
        """Says whether something was not done yet in this round, and notes it as done."""
        with self._lock:
            if self._state.gang.get(what) == self.number:
                return False
            self._note(**{what: self.number})
            return True

    def undo(self, what: str) -> None:
        """Makes it due again in this round."""
        with self._lock:
            self._note(**{what: 0})

    def note_stop(self, pid: int) -> bool:
        """Says whether a process was not asked to stop yet, and notes that it is; before it is asked: what the command
        does then is not its own end.
        """
        with self._lock:
            if self._state.gang.get("stopped") == pid:
                return False
            self._note(stopped=pid, stopped_at=time.time())
            return True

    def was_stopped(self, ended: Mapping[str, Any]) -> bool:
        """Says whether the command ended after it was asked to stop. `ended_at` is in whole milliseconds, rounded
        down.
        """
        if "stopped_at" not in self._state.gang or "ended_at" not in ended:
            return False
        return bool(own_time(str(ended["ended_at"])) >= self._state.gang["stopped_at"] - 0.001)

    def next(self) -> None:
        """Makes ready for the newest round: the command begins once more, as the next run."""
        with self._lock:
            go, wanted = self._state.gang.get("go", {}), self._wanted
            kept = {"go": go} if go.get("round") == wanted else {}
            kept.update({"publishes": wanted} if self._state.gang.get("publishes") == wanted else {})
            self._state.gang = {"round": wanted, "wanted": wanted, **kept}
            self._state.run += 1
            self._state.sent, self._state.reported = [], {}
            self._state.save()

    def _note(self, **facts: Any) -> None:
        self._state.gang = {**self._state.gang, **facts}
        self._state.save()
