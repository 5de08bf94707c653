"""Parts that all small trainings share: how they report a save, and what is in a state, as one digest."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

SAVES = 4
STEP_S = 0.01  # at least: a training that is over at once is hard to hit
WIDTH = 448  # of the square weights: a state of some megabytes, so that a write lasts long enough to be hit


class Tell(Protocol):
    """`begin` comes right before a save and `end` right after it; the digest is of the state that is saved."""

    def __call__(self, what: str, step: int = 0, digest: str = "", path: str = "") -> None: ...


Train = Callable[[str, Tell], None]  # in this folder
Load = Callable[[str], str]  # the digest of what the framework makes of this checkpoint; raises what it raises


def breathe() -> None:
    """Called at each step."""
    threading.Event().wait(STEP_S)


class Restored(Exception):
    """Ends a training that was begun only to see what it resumes from."""


def digest(state: Any) -> str:
    """Digests tensors, arrays and plain values, in the order of their names."""
    sha = hashlib.sha256()
    _add(sha, state)
    return sha.hexdigest()[:16]


def _add(sha: Any, state: Any) -> None:
    if isinstance(state, Mapping):
        for name in sorted(state, key=str):
            sha.update(str(name).encode())
            _add(sha, state[name])
    elif isinstance(state, Sequence) and not isinstance(state, str | bytes):
        for part in state:
            _add(sha, part)
    elif hasattr(state, "detach"):
        sha.update(state.detach().cpu().contiguous().numpy().tobytes())
    elif hasattr(state, "tobytes"):
        sha.update(state.tobytes())
    else:
        sha.update(repr(state).encode())
