"""Orbax: a CheckpointManager as JAX programs use it, which saves in the background and keeps three steps."""

from __future__ import annotations

import os
from typing import Any

import jax
import numpy
import orbax.checkpoint as ocp
from tests.trainers.bench.state import SAVES, WIDTH, Load, Tell, Train, breathe, digest


def _manager(folder: str) -> Any:
    return ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(max_to_keep=3))


def _train(folder: str, tell: Tell) -> None:
    manager = _manager(folder)
    weights = jax.numpy.asarray(numpy.random.default_rng(1).standard_normal((WIDTH, WIDTH), "float32"))
    for step in range(1, SAVES * 3 + 1):
        weights = jax.numpy.tanh(weights * 1.01)
        breathe()
        if step % 3 == 0:
            state = {"weights": weights, "momentum": weights * 0.5, "step": step}
            tell("begin", step, digest(_plain(state)), os.path.join(folder, str(step)))
            manager.save(step, args=ocp.args.StandardSave(state))
            manager.wait_until_finished()
            tell("end", step)
    manager.close()


def _load(path: str) -> str:
    folder, name = os.path.split(path)
    manager = _manager(folder)
    if int(name) not in manager.all_steps():
        raise ValueError(f"Orbax does not count {name} among {manager.all_steps()}")
    return digest(_plain(manager.restore(int(name), args=ocp.args.StandardRestore())))


def _plain(state: Any) -> dict[str, Any]:
    return {name: int(value) if name == "step" else numpy.asarray(value) for name, value in state.items()}


KINDS: dict[str, tuple[Train, Load]] = {"orbax": (_train, _load)}
