"""Parts that all gangs share: a rank's place, how it reports a save, and the digest of its state."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tests.trainers.bench.state import digest

HERE = "/proc/self/cwd"  # one absolute path, and of each process its own working directory
SAVES = 4


@dataclass(frozen=True)
class Place:
    """A rank among `ranks`, of which each node has `per_node`. `port` is the one at which they meet."""

    rank: int
    ranks: int
    per_node: int
    port: int

    @property
    def node(self) -> int:
        return self.rank // self.per_node

    def enter(self, folder: str) -> None:
        """Sets what `torchrun` sets, and makes the node's folder the working directory."""
        os.chdir(folder)
        os.environ.update(
            RANK=str(self.rank),
            LOCAL_RANK=str(self.rank % self.per_node),
            GROUP_RANK=str(self.node),
            WORLD_SIZE=str(self.ranks),
            LOCAL_WORLD_SIZE=str(self.per_node),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(self.port),
        )


class Tell(Protocol):
    """`begin` comes right before a save and `end` right after it, from each rank; the digest is of what this rank
    saves, and `name` is the checkpoint's, below the folder.
    """

    def __call__(self, what: str, step: int = 0, digest: str = "", name: str = "") -> None: ...


Train = Callable[[Place, Tell], None]
Load = Callable[[Place, str], str]  # the digest of what the framework gives this rank of the checkpoint


def local(state: Any) -> Any:
    """The state with each sharded tensor replaced by this rank's part of it."""
    if isinstance(state, Mapping):
        return {name: local(value) for name, value in state.items()}
    if isinstance(state, list | tuple):
        return [local(value) for value in state]
    return state.to_local() if hasattr(state, "to_local") else state


def local_digest(state: Any) -> str:
    return digest(local(state))
