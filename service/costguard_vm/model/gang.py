"""The checkpoints of a gang, a job of several VMs, as the judge sees them over the parts of all nodes.

Travels with the agent: Python 3.8 and its standard library must do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from costguard_vm.model.checkpoint import Checkpoint, CheckpointLook, _Word


class GangState(_Word):
    COMPLETE = "complete"  # every rank's part is there and whole
    INCOMPLETE = "incomplete"  # a part is missing, torn, or still written
    UNKNOWN = "unknown"  # a node could not be looked at, copies contradict each other, or nobody looked inside


@dataclass(frozen=True)
class GangShape:
    """`ranks_per_node` is None where nobody says it. Ranks are numbered node by node, as `torchrun` and
    `jax.distributed` number them. `is_shared`: all nodes write to one folder or bucket.
    """

    nodes: int
    ranks_per_node: int | None = None
    is_shared: bool = False

    def node_of(self, rank: int) -> int | None:
        """The node that a rank runs on; None where that is not known, or the gang has no such rank."""
        if self.is_shared or self.ranks_per_node is None or rank >= self.nodes * self.ranks_per_node:
            return None
        return rank // self.ranks_per_node


@dataclass(frozen=True)
class MissingPart:
    """A file that is missing or not whole; `rank` and `node` are None where its name does not tell them."""

    path: str
    rank: int | None
    node: int | None


@dataclass(frozen=True)
class GangCheckpoint:
    """A step over all nodes. `reasons` say why it is not complete, and `missing` lists the files."""

    checkpoint: Checkpoint
    state: GangState
    reasons: tuple[str, ...]
    missing: tuple[MissingPart, ...]


@dataclass(frozen=True)
class GangLook:
    """The checkpoints of a gang, newest first. `look` is the layouts' view of all parts together.

    `resume` is the newest complete one. Unless `is_settled`, a newer one may be complete too: a node could not be
    looked at, or something about a newer one is unknown. A node whose disk is gone is no such node: its listing is
    empty. `holders` are the nodes whose copy of a file was judged, by its path: those are the ones to resume from.
    """

    look: CheckpointLook
    checkpoints: tuple[GangCheckpoint, ...]
    resume: GangCheckpoint | None
    is_settled: bool
    holders: Mapping[str, int] = field(repr=False)
