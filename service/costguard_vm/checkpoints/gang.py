"""Judges the checkpoints of a gang: a job of several VMs, of which each writes what its ranks hold.

A checkpoint of a gang is complete when every rank's part is. The parts of one step lie in a folder of each VM's own or
in one that all share; the layouts' rules are asked about all parts together, and say themselves which files that takes.
Whatever the layout, each VM that resumes gets all parts: a rendezvous may give a VM other ranks than before, DCP, Orbax
and DeepSpeed let a rank read what others wrote, and Megatron's tracker and Lightning's `meta.pt` are of rank 0 alone.

Pure except for the ranges that it reads. Travels with the agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Callable, TypeVar

from costguard_vm.checkpoints.judge import judge
from costguard_vm.checkpoints.layouts.base import FileChanged, RangeReader, Vouching, lost_files
from costguard_vm.checkpoints.layouts.ranks import rank_of
from costguard_vm.model.checkpoint import Checkpoint, CheckpointLook, CheckpointState, Listing, LookFor, StoredFile
from costguard_vm.model.gang import GangCheckpoint, GangLook, GangShape, GangState, MissingPart

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class NodePart:
    """The files in the folder of one node, by its number from 0, and how to read in them.

    `problems` are what the node itself found when it read its files, "" for a whole one; others are read here.
    """

    node: int
    listing: Listing
    reader: RangeReader
    problems: Mapping[str, str] = field(default_factory=dict)


def judge_gang(
    parts: Sequence[NodePart],
    shape: GangShape,
    look_for: LookFor,
    earlier: Mapping[int, Listing] | None = None,
    examine: int = 1,
) -> GangLook:
    """Judges each step over the parts of all nodes; the newest complete one is what the gang resumes from.

    As `judge`, it reads in the newest `examine`, and in older ones until one is complete.

    `parts` are of the nodes that could be looked at: what only the others can hold is unknown, and not missing. A
    shared folder is one part. `earlier` are the listings before, by node: what changed since may still be written.
    """
    union = _Union(parts, shape)
    before = None
    if earlier is not None:
        past = [replace(part, listing=earlier[part.node]) for part in parts if part.node in earlier]
        before = _Union(past, shape).listing
    look = judge(union.listing, look_for, union, before, examine)
    return _GangJudge(union, parts, shape).look(look)


class _Union(Vouching):
    """The files of all nodes under one location, and a reader of them.

    Where several nodes hold a path, the copy of the node that its rank runs on counts. Of a file that is of no rank
    alone it is the lowest node's, where rank 0 runs: DeepSpeed, for one, writes the model's states on each node that
    has a disk of its own. `disputed` are files of a rank whose copies differ in size where its node is not known, or
    holds none.
    """

    def __init__(self, parts: Sequence[NodePart], shape: GangShape) -> None:
        copies: dict[str, list[NodePart]] = {}
        for part in sorted(parts, key=lambda part: part.node):
            for path in part.listing.files:
                copies.setdefault(path, []).append(part)
        self._holders: dict[str, NodePart] = {}
        self.disputed: dict[str, list[int]] = {}
        for path, held in copies.items():
            rank = rank_of(path)
            owner = None if rank is None else shape.node_of(rank)
            mine = [part for part in held if part.node == owner]
            self._holders[path] = (mine or held)[0]
            if rank is not None and not mine and len({part.listing.files[path].size for part in held}) > 1:
                self.disputed[path] = [part.node for part in held]
        self.holders = {path: part.node for path, part in self._holders.items()}
        files = {path: part.listing.files[path] for path, part in sorted(self._holders.items())}
        first = parts[0].listing if parts else Listing("", {})
        unread = sorted({folder for part in parts for folder in part.listing.unread})
        self.listing = Listing(first.location, files, tuple(unread), all(part.listing.is_file for part in parts))

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        if file.path not in self._holders:
            raise FileChanged(file.path)
        return self._holders[file.path].reader.read(file, start, length)

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        return [work(item) for item in items]

    def problem(self, file: StoredFile) -> str | None:
        holder = self._holders.get(file.path)
        return holder.problems.get(file.path) if holder is not None else None


class _GangJudge:
    def __init__(self, union: _Union, parts: Sequence[NodePart], shape: GangShape) -> None:
        self._union, self._shape = union, shape
        seen = {part.node for part in parts}
        self._unseen = () if shape.is_shared and parts else tuple(sorted(set(range(shape.nodes)) - seen))
        self._unread = any(part.listing.unread for part in parts)

    def look(self, look: CheckpointLook) -> GangLook:
        judged = tuple(self._judged(one) for one in look.checkpoints)
        resume = next((one for one in judged if one.state is GangState.COMPLETE), None)
        newer = judged[: judged.index(resume)] if resume is not None else judged
        is_unknown = any(one.state is GangState.UNKNOWN for one in newer)
        is_settled = not (self._unseen or self._unread or is_unknown)
        return GangLook(look, judged, resume, is_settled, self._union.holders)

    def _judged(self, one: Checkpoint) -> GangCheckpoint:
        disputed = [path for path in self._union.disputed if path.startswith(f"{one.name}/") or path == one.name]
        if disputed:
            nodes = " and ".join(str(node) for node in self._union.disputed[disputed[0]])
            reason = f"{disputed[0]} differs between the nodes {nodes}, and nothing tells whose counts."
            return GangCheckpoint(one, GangState.UNKNOWN, (reason,), ())
        if one.is_complete:
            return GangCheckpoint(one, GangState.COMPLETE, (), ())
        if one.state is CheckpointState.UNREAD or self._unread:
            reasons = one.reasons or ("Its content was not read.",)
            return GangCheckpoint(one, GangState.UNKNOWN, reasons, ())
        missing = tuple(self._part(path) for path in lost_files(one.reasons))
        return GangCheckpoint(one, self._state(missing), self._reasons(one, missing), missing)

    def _state(self, missing: Sequence[MissingPart]) -> GangState:
        """A node that could not be looked at may hold what is missing, unless all of that is of others."""
        may_be_there = not missing or any(part.node is None or part.node in self._unseen for part in missing)
        return GangState.UNKNOWN if self._unseen and may_be_there else GangState.INCOMPLETE

    def _part(self, path: str) -> MissingPart:
        rank = rank_of(path)
        return MissingPart(path, rank, None if rank is None else self._shape.node_of(rank))

    def _reasons(self, one: Checkpoint, missing: Sequence[MissingPart]) -> tuple[str, ...]:
        """The layout's reasons, then the ranks whose parts are missing, with the node of each."""
        ranks = sorted({part.rank for part in missing if part.rank is not None})
        reasons = [str(reason) for reason in one.reasons]
        if ranks:
            named = ", ".join(self._named(rank) for rank in ranks[:8])
            more = f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
            reasons.append(f"The part of {named}{more} is missing or not whole.")
        if self._unseen:
            reasons.append(f"Not looked at: node {', '.join(map(str, self._unseen))}.")
        return tuple(reasons)

    def _named(self, rank: int) -> str:
        node = self._shape.node_of(rank)
        return f"rank {rank}" if node is None else f"rank {rank} (node {node})"
