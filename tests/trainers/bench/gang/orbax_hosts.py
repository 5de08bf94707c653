"""Orbax with several JAX processes on CPU and the folder that it wants: one that all hosts share.

Its primary host, 0 by default, merges what the others wrote and renames the step into place.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tests.trainers.bench.gang.ranks import HERE, SAVES, Load, Place, Tell, Train, local_digest
from tests.trainers.bench.state import WIDTH, breathe


def _sharding(place: Place) -> Any:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{place.port}", place.ranks, place.rank)
    return NamedSharding(Mesh(numpy.array(jax.devices()), ("hosts",)), PartitionSpec("hosts"))


def _manager() -> Any:
    return ocp.CheckpointManager(HERE, options=ocp.CheckpointManagerOptions(max_to_keep=3))


def _begun(sharding: Any) -> dict[str, Any]:
    whole = numpy.random.default_rng(1).standard_normal((WIDTH, WIDTH), "float32")
    weights = jax.make_array_from_callback(whole.shape, sharding, lambda place: whole[place])
    everywhere = NamedSharding(sharding.mesh, PartitionSpec())
    scale = jax.make_array_from_callback((WIDTH,), everywhere, lambda place: whole[0][place])
    return {"weights": weights, "momentum": weights * 0.5, "scale": scale}


def _train(place: Place, tell: Tell) -> None:
    state = _begun(_sharding(place))
    manager = _manager()
    for step in range(1, SAVES * 3 + 1):
        state = jax.tree.map(lambda held: jax.numpy.tanh(held * 1.01), state)
        breathe()
        if step % 3 == 0:
            tell("begin", step, _digest(state), str(step))
            manager.save(step, args=ocp.args.StandardSave(state))
            manager.wait_until_finished()
            tell("end", step)
    manager.close()


def _load(place: Place, name: str) -> str:
    like = jax.tree.map(_like, _begun(_sharding(place)))
    manager = _manager()
    if int(name) not in manager.all_steps():
        raise ValueError(f"Orbax does not count {name} among {manager.all_steps()}")
    return _digest(manager.restore(int(name), args=ocp.args.StandardRestore(like)))


def _like(held: Any) -> Any:
    return jax.ShapeDtypeStruct(held.shape, held.dtype, sharding=held.sharding)


def _digest(state: Any) -> str:
    held = {name: [numpy.asarray(part.data) for part in value.addressable_shards] for name, value in state.items()}
    return local_digest(held)


KINDS: dict[str, tuple[Train, Load]] = {"orbax-shared": (_train, _load)}
