"""Gangs whose agents take their looks one after the other over a bucket in memory, and end at any write to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.agent.shared_bucket import LOCATION, Save, SharedBucket, Stored, put_on_disk
from tests.checkpoints.gangs import recorded, saved_files
from tests.checkpoints.places import Memory

from costguard_vm.agent.calls import Metadata
from costguard_vm.agent.processes import Gentle
from costguard_vm.agent.settings import AttemptSettings
from costguard_vm.agent.transfers.gang_travel import GangTravel
from costguard_vm.agent.transfers.phases import Phases
from costguard_vm.agent.transfers.preparation import CommandSecrets, Stage, StageFolders
from costguard_vm.agent.transfers.transfer import Transfer
from costguard_vm.checkpoints.judge import age, candidates, verdict_on
from costguard_vm.checkpoints.layouts.base import CandidateCheckpoint
from costguard_vm.checkpoints.layouts.ranks import rank_of
from costguard_vm.checkpoints.parts import PARTS, Word, word_of
from costguard_vm.checkpoints.uploads import OURS, SLOTS, UPLOADING
from costguard_vm.model.checkpoint import CheckpointState, Framework, LookFor

Files = dict[str, bytes]


class Whole(NamedTuple):
    """A complete checkpoint at the location."""

    name: str
    step: int
    resume_from: str


@dataclass
class Node:
    """A VM: its agent's folder, and the folder where its command saves."""

    home: Path
    settings: AttemptSettings
    travel: GangTravel

    @property
    def saved(self) -> Path:
        return Path(self.settings.checkpoint["local"])


class _Secrets(CommandSecrets):
    def __init__(self, bucket: SharedBucket) -> None:
        self._bucket = bucket

    def transfer(self, wait: Callable[[float], Any], is_gentle: Gentle = False) -> Transfer:
        return self._bucket


class PartsGang:
    """`layout` gives the files of each node of a save, as a framework wrote them."""

    def __init__(
        self,
        folder: Path,
        nodes: int,
        layout: Callable[[int], Sequence[Files]],
        plan: Mapping[str, str] | None = None,
        metric: str = "",
    ) -> None:
        self._folder, self._layout, self._plan = folder, layout, {"keep": "2", **(plan or {})}
        self._metric = metric
        self.bucket, self.round = SharedBucket(), 0
        self.events: list[list[dict[str, Any]]] = [[] for _ in range(nodes)]
        self._homes = itertools.count()
        self.nodes = [self._vm(node, nodes) for node in range(nodes)]
        self.bucket.check = self.check
        self._verdicts: dict[object, bool] = {}
        self.newest: list[int] = []  # steps that the guard could have resumed from, one after the other

    def _vm(self, node: int, nodes: int) -> Node:
        home = self._folder / f"{node}-{next(self._homes)}"
        (home / "agent").mkdir(parents=True)
        plan = {"location": LOCATION, "local": str(home / "saved"), **self._plan}
        settings = AttemptSettings(
            attempt=f"a-{node}", job="one", checkpoint=plan, look_s=0.0, parts_s=0.0, resume_arguments=["{checkpoint}"],
            gang={"node": str(node), "nodes": str(nodes)}, metric_pattern=self._metric,
        )  # fmt: skip
        return Node(home, settings, self._agent(node, home, settings))

    def _agent(self, node: int, home: Path, settings: AttemptSettings) -> GangTravel:
        def send(kind: str, is_urgent: bool = True, **event: Any) -> None:
            self.events[node].append({"kind": kind, **event})

        return GangTravel(settings, str(home / "agent"), "", _Secrets(self.bucket), send)

    def lose(self, node: int) -> None:
        """The VM is gone with its disk; another one takes its place."""
        self.nodes[node] = self._vm(node, len(self.nodes))

    def restart(self, node: int) -> None:
        """The agent was killed, and is started again on the same VM."""
        one = self.nodes[node]
        one.travel = self._agent(node, one.home, one.settings)

    def ready(self, order: Sequence[int] | None = None) -> None:
        """Does what the agents do before they stand by for the next round."""
        for node in order or range(len(self.nodes)):
            self.restart(node)
            self.nodes[node].travel.publish_earlier(lambda _: None, node == 0)

    def begin(self, resume: bool = True) -> Whole | None:
        """Begins the next round, from what the guard finds."""
        self.round += 1
        best = next(iter(self.look()), None) if resume else None
        for node in range(len(self.nodes)):
            self.prepare(node, best)
        return best

    def prepare(self, node: int, best: Whole | None, **place: object) -> None:
        """Does what the agent of a node does with the word to begin this round, which may name its place."""
        one = self.nodes[node]
        folders = StageFolders(str(one.home / "agent"), str(one.home / "agent"))
        secrets = _Secrets(self.bucket)
        stage = Stage(one.settings, self.round, folders, lambda _: None, secrets, lambda *_, **__: None, Phases())
        stage.go = {
            "round": self.round,
            "resume_from": best.resume_from if best else "",
            "step": best.step if best else None,
            **place,
        }
        one.travel.prepare(stage)

    def save(self, step: int, nodes: Sequence[int] | None = None, again: int = 0) -> None:
        """Each node's command saves its files."""
        parts = self._layout(step)
        for node in nodes if nodes is not None else range(len(self.nodes)):
            for path, body in parts[node].items():
                put_on_disk(self.bucket, str(self.nodes[node].saved / path), body, Save(self.round, step, again))

    def looks(self, times: int = 8, order: Sequence[int] | None = None) -> Iterator[int]:
        """The agents look in turns. Yields the node before each look."""
        for _ in range(times):
            for node in order or range(len(self.nodes)):
                yield node
                self.nodes[node].travel.look(False)

    def run(self, times: int = 8, order: Sequence[int] | None = None) -> None:
        for _ in self.looks(times, order):
            pass

    def end(self, nodes: Sequence[int]) -> Iterator[int]:
        """The commands have ended, and the agents take their last looks. Yields the node before each."""
        for node in nodes:
            yield node
            while self.nodes[node].travel.look(True):
                yield node
        for _ in range(3):
            if 0 in nodes:
                yield 0
                while self.nodes[0].travel.look(True):
                    yield 0
        if 0 in nodes:
            yield 0
            self.nodes[0].travel.awaits()

    def look(self) -> list[Whole]:
        """The complete checkpoints at the location as the guard judges them, the newest first."""
        memory = self.bucket.memory()
        seen = candidates(memory.listing, self.look_for, memory)
        return [
            Whole(one.name, one.step or 0, f"{LOCATION}/{one.resume_path}")
            for one in sorted(seen, key=age, reverse=True)
            if not one.missing and self._is_whole(one, memory)
        ]

    def _is_whole(self, one: CandidateCheckpoint, memory: Memory) -> bool:
        key = tuple((path, file.tag) for path, file in one.files.items())
        if key not in self._verdicts:
            self._verdicts[key] = verdict_on(one, memory, None, is_wanted=True)[0] is CheckpointState.COMPLETE
        return self._verdicts[key]

    @property
    def look_for(self) -> LookFor:
        framework = Framework(self._plan["framework"]) if "framework" in self._plan else None
        return LookFor(framework, self._plan.get("pattern", ""), self._plan.get("marker", ""))

    def check(self) -> None:
        """No moment shows a checkpoint of which files lack or are of several saves, and the newest never goes back."""
        whole = self.look()
        for one in whole:
            self._check(one)
        step = whole[0].step if whole else -1
        if self.newest and step < self.newest[-1]:
            raise AssertionError(f"from step {self.newest[-1]} back to {step}")
        self.newest.append(step)

    def _check(self, one: Whole) -> None:
        slot = "/".join(one.name.split("/")[:3]) + "/" if one.name.startswith(SLOTS) else ""
        name = one.name[len(slot) :]
        union = {path for files in self._layout(one.step) for path in files if path.startswith(f"{name}/")}
        lacking = [path for path in union if slot + path not in self.bucket.files]
        assert not lacking, f"{one.name} lacks {lacking}"
        saves = {self.bucket.files[slot + path].save for path in union}
        assert len(saves) == 1, f"{one.name} is of {saves}"

    def saved_at(self, name: str) -> Save | None:
        """The save that the checkpoint of this name at the location itself is of."""
        return next((stored.save for path, stored in self.bucket.files.items() if path.startswith(f"{name}/")), None)

    def saves_there(self, name: str) -> set[Save | None]:
        """The saves that the whole checkpoints of this name are of, at the location and in its slots."""
        heads = [one.name for one in self.look() if one.name.endswith(name)]
        return {
            stored.save
            for path, stored in self.bucket.files.items()
            if path.startswith(tuple(f"{one}/" for one in heads))
        }

    def has_all_parts(self, step: int) -> bool:
        """Says whether every node has said that all its files of a step are at the location."""
        words: dict[int, Word] = {}
        for path, stored in self.bucket.files.items():
            if path.startswith(PARTS) and path.endswith(".json") and f"/{self.round}/said/" in path:
                word = word_of(stored.body)
                node = int(path.rpartition("/")[2].partition(".")[0])
                words[node] = max(word, words.get(node, word), key=lambda one: one.number)
        held = [{part.step: part.is_there for part in word.parts.values()} for word in words.values()]
        with_files = sum(any(path.partition("/")[2] for path in files) for files in self._layout(step))
        return sum(one.get(step, False) for one in held) == with_files

    def on_disks(self, best: Whole) -> list[Save]:
        """The one save that all files of a checkpoint are of, on each node."""
        slot = "/".join(best.name.split("/")[:3]) + "/" if best.name.startswith(SLOTS) else ""
        name = best.name[len(slot) :]
        held = []
        union = {path for files in self._layout(best.step) for path in files if path.startswith(f"{name}/")}
        for node in self.nodes:
            saves = {self.bucket.disks[str(node.saved / path)][1] for path in union if (node.saved / path).exists()}
            assert all((node.saved / path).exists() for path in union)
            held += list(saves)
        return held

    def state(self) -> dict[str, Stored]:
        return dict(self.bucket.files)

    def back_to(self, state: dict[str, Stored]) -> None:
        self.bucket.files, self.round, self.newest = dict(state), 1, []

    @property
    def left_over(self) -> list[str]:
        """Files of parts and notes of uploads."""
        return [
            path
            for path in self.bucket.files
            if (path.startswith(PARTS) and "/said/" not in path) or path.startswith(UPLOADING)
        ]

    @property
    def seen_by_others(self) -> set[str]:
        return {path for path in self.bucket.files if not path.startswith(OURS)}


NOWHERE = Metadata("http://127.0.0.1:1/computeMetadata/v1")


@cache
def _spread(name: str, step: int, nodes: int) -> tuple[Files, ...]:
    run = recorded(name)
    if nodes == run.shape.nodes == len(run.parts):
        return tuple(saved_files(name, node, step) for node in range(nodes))
    union: Files = {}
    for node in reversed(range(len(run.parts))):
        union.update(saved_files(name, node, step))
    ranks = 1 + max(rank for path in union if (rank := rank_of(path)) is not None)
    spread: list[Files] = [{} for _ in range(nodes)]
    for path, body in union.items():
        rank = rank_of(path)
        spread[0 if rank is None else rank * nodes // ranks][path] = body
    return tuple(spread)


def recorded_layout(name: str, nodes: int) -> Callable[[int], Sequence[Files]]:
    """The files of a recorded run, spread over so many nodes by their ranks."""
    return lambda step: _spread(name, step, nodes)
