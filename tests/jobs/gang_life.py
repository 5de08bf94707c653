"""Plays agents of a gang as their PROTOCOL.md says; they speak when a test lets time go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.jobs.world import World

from costguard.errors import Forbidden
from costguard.jobs.reports.agent_events import AgentEvent, AgentReport, EventsAnswer
from costguard.model.attempt import STANDING_BY


@dataclass
class Member:
    """Plays one VM's agent. `is_running`: its command runs in `round`."""

    name: str
    address: str
    run: int = 1
    round: int = 1
    is_running: bool = False
    is_over: bool = False
    waits: bool = False  # its round has ended, and it waits for the next
    beats: int = 0  # words of its command since that began
    publishes: bool | None = None  # what the last word to regroup said
    rank: int = -1  # its place in the round that it began last
    saves: list[int] = field(default_factory=list)  # the rounds in which it was asked for a save
    began: list[tuple[int, str, tuple[str, ...], str]] = field(default_factory=list)  # round, resumed from, addresses


def all_answers(world: World | Any, words: Mapping[str, tuple[str, dict[str, Any]]]) -> list[EventsAnswer]:
    """Reports one event of each of these VMs at once, as a server hears those that come together."""
    if not isinstance(world, World):  # its agents have tokens of their own
        return [world.answer(name, event) for name, event in words.items()]
    reports = []
    for name, (kind, fields) in words.items():
        world.hearing.check(name, world.tokens.of(name))
        event = AgentEvent(world.outside.seq.get(name, 0) + 1, kind, world.clock.now(), fields)
        reports.append(AgentReport(name, (event,)))
    answers = [answer for answer in world.hearing.hear_all(reports) if not isinstance(answer, Forbidden)]
    for name, answer in zip(words, answers, strict=True):
        world.outside.seq[name] = answer.accepted_through
        if answer.go is not None:
            world.outside.go[name] = answer.go
    return answers


class GangAgents:
    """Speaks for each VM of a job that runs, unless it is silent or held up."""

    def __init__(self, world: World, job_id: str = "j1") -> None:
        self.world, self.job_id = world, job_id
        self.members: dict[str, Member] = {}
        self.silent: set[str] = set()
        self.slow: set[str] = set()  # their agents do not come up
        self.at_step: int | None = None  # what their commands say; None: one step a round

    def running(self) -> dict[str, Member]:
        """Returns the members whose VMs run, by name."""
        names = {vm.name for vm in self.world.cloud.running() if vm.name.startswith(f"cg-{self.job_id}-")}
        for name in sorted(names - self.members.keys() - self.slow):
            self.members[name] = Member(name, f"10.0.0.{len(self.members) + 2}")
        return {name: one for name, one in self.members.items() if name in names and name not in self.silent}

    def step(self, seconds: float = 10, passing: bool = True) -> None:
        """The guard takes a turn, and then every agent reports once."""
        self.world.step(seconds, passing=passing)
        members = [member for member in self.running().values() if not member.is_over]
        answers = all_answers(self.world, {member.name: self._beat(member) for member in members})
        for member, answer in zip(members, answers, strict=True):
            self._take(member, answer)

    def until_running(self, count: int, turns: int = 60) -> list[Member]:
        """Goes on until the commands of so many members run together, by node."""
        for _ in range(turns):
            self.step()
            together = [one for one in self.running().values() if one.is_running]
            if len(together) == count and len({one.round for one in together}) == 1:
                return together
        raise AssertionError(f"they never ran together: {self.world.job(self.job_id).reason}")

    def until_all_of_round(self, turns: int = 60) -> list[Member]:
        """Goes on until the commands of all that began a round together run, and returns them by their rank."""
        for _ in range(turns):
            self.step()
            together = sorted((one for one in self.running().values() if one.is_running), key=lambda one: one.rank)
            if together and len(together) == len(together[0].began[-1][2]):
                return together
        raise AssertionError(f"they never ran together: {self.world.job(self.job_id).reason}")

    def beat(self, member: Member) -> None:
        self._take(member, self.world.answer(member.name, self._beat(member)))

    def _beat(self, member: Member) -> tuple[str, dict[str, Any]]:
        if member.is_running:
            member.beats += 1
            step = 1000 * member.round if self.at_step is None else self.at_step
            return self._words(member, "heartbeat", is_running=True, step=step)
        return self._words(member, "heartbeat", phase="round_ended" if member.waits else STANDING_BY)

    def fail(self, member: Member, code: int = 1, output: str = "ValueError: wrong", **more: Any) -> None:
        """Ends its command by itself."""
        member.is_running, member.waits = False, True
        fields = {"reason": "exited", "code": code, "output": output.splitlines(), **more}
        self._take(member, self._say(member, "round_ended", **fields))

    def finish(self, member: Member) -> None:
        member.is_running, member.is_over = False, True
        self._say(member, "exit", reason="exited", code=0)

    def notice(self, member: Member) -> None:
        self._take(member, self._say(member, "notice", what="preemption", value="TRUE"))

    def _say(self, member: Member, kind: str, **fields: Any) -> EventsAnswer:
        return self.world.answer(member.name, self._words(member, kind, **fields))

    @staticmethod
    def _words(member: Member, kind: str, **fields: Any) -> tuple[str, dict[str, Any]]:
        return kind, {"run": member.run, "round": member.round, "address": member.address, **fields}

    def _take(self, member: Member, answer: EventsAnswer) -> None:
        if answer.cancel:
            member.is_running, member.is_over = False, True
            self._say(member, "exit", reason="exited", code=0, asked="cancel")
            return
        if answer.save is not None and member.is_running and answer.save.round == member.round:
            member.saves.append(member.round)
        if answer.regroup is not None and answer.regroup.round > member.round:
            member.publishes = answer.regroup.publishes
            if member.is_running:
                self._say(member, "round_ended", reason="exited", signal=15, asked="regroup")
            if member.is_running or member.waits:
                member.run += 1
            member.is_running = member.waits = False
            member.round = answer.regroup.round
            self._take(member, self._say(member, "heartbeat", phase=STANDING_BY))
        if answer.go is not None and not member.is_running and not member.waits and answer.go.round == member.round:
            member.is_running, member.beats = True, 0
            assert answer.go.rank is not None
            assert answer.go.vms[answer.go.rank] == member.name
            member.rank = answer.go.rank
            member.began.append((member.round, answer.go.resume_from, answer.go.addresses, answer.go.secret))
            self._take(member, self._say(member, "start", step=None))
