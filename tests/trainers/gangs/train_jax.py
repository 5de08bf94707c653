"""A small model in JAX on several processes: rows are sharded over them, and Orbax saves from all.

With `--shards` any number of processes that divides them makes the same steps to the last bit: each gradient is of one
shard of the batch, computed by itself, and they are added in the order of the shards.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy
import orbax.checkpoint as ocp
from jax.sharding import NamedSharding, PartitionSpec

WIDTH, ROWS, EVERY = 32, 8, 5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--from", dest="begun", default="")
    parser.add_argument("--shards", type=int, default=0, help="of the batch, over any processes; default: one for each")
    parser.add_argument("--last-after", type=Path, help="a file without which the last step does not begin")
    given = parser.parse_args()
    # The coordinator's address comes from JAX_COORDINATOR_ADDRESS; JAX reads no variable for the other two.
    nodes, node = int(os.environ["JAX_NUM_PROCESSES"]), int(os.environ["JAX_PROCESS_ID"])
    jax.distributed.initialize(num_processes=nodes, process_id=node)
    mesh = jax.make_mesh((nodes,), ("nodes",))
    split, whole = NamedSharding(mesh, PartitionSpec("nodes")), NamedSharding(mesh, PartitionSpec())

    def shared(value: numpy.ndarray[Any, Any], sharding: NamedSharding) -> jax.Array:
        return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])

    shards = given.shards or nodes
    weights = numpy.random.default_rng(1).standard_normal((shards * WIDTH, WIDTH)).astype("float32")
    state = {"weights": shared(weights, split), "momentum": shared(0 * weights, split)}
    manager = ocp.CheckpointManager(given.out, options=ocp.CheckpointManagerOptions(enable_async_checkpointing=False))
    first = 0
    if given.begun:
        first = int(Path(given.begun).name)
        state = manager.restore(first, args=ocp.args.StandardRestore(state))

    train = _by_shards(mesh, shards) if given.shards else jax.jit(_trained)
    for step in range(first + 1, given.steps + 1):
        while step == given.steps and given.last_after and not given.last_after.exists():
            time.sleep(0.05)  # noqa: TID251
        rows = numpy.random.default_rng(step).standard_normal((shards * ROWS, WIDTH)).astype("float32")
        state = train(state, shared(rows, split))
        jax.block_until_ready(state)
        print(f"step {step}/{given.steps}", flush=True)
        if not (given.last_after and given.last_after.exists()):
            time.sleep(0.5)  # noqa: TID251 - long enough to be killed
        if step % EVERY == 0:
            manager.save(step, args=ocp.args.StandardSave(state))
            manager.wait_until_finished()
    final = jax.jit(lambda one: one, out_shardings=whole)(state["weights"])
    digest = hashlib.sha256(numpy.asarray(final).tobytes()).hexdigest()
    (given.out.parent / f"final-{node}").write_text(digest)
    jax.distributed.shutdown()


State = dict[str, jax.Array]
Values = numpy.ndarray[Any, Any]


def _loss(weights: jax.Array, rows: jax.Array) -> jax.Array:
    return jax.numpy.square(rows @ weights.reshape(-1, WIDTH, WIDTH).sum(0) - rows[:, ::-1]).mean()


def _moved(state: State, gradient: jax.Array) -> State:
    momentum = 0.9 * state["momentum"] + gradient
    return {"weights": state["weights"] - 0.01 * momentum, "momentum": momentum}


def _trained(state: State, rows: jax.Array) -> State:
    return _moved(state, jax.grad(_loss)(state["weights"], rows))


def _by_shards(mesh: jax.sharding.Mesh, shards: int) -> Callable[[State, jax.Array], State]:
    """Returns a step in which processes exchange values and compute alone, with the same shapes for any number of them:
    XLA rounds a sum by the shape of what it is part of.
    """
    split, whole = NamedSharding(mesh, PartitionSpec("nodes")), NamedSharding(mesh, PartitionSpec())
    gather, of_one = jax.jit(lambda value: value, out_shardings=whole), jax.jit(jax.grad(_loss))

    def seen(value: jax.Array) -> Values:
        return numpy.asarray(gather(value))

    def placed(value: Values) -> jax.Array:
        return jax.make_array_from_callback(value.shape, split, lambda index: value[index])

    def train(state: State, rows: jax.Array) -> State:
        weights, batch = seen(state["weights"]), seen(rows).reshape(shards, ROWS, WIDTH)
        own = range(shards)[(rows.addressable_shards[0].index[0].start or 0) // ROWS :][: shards // mesh.size]
        by_shard = numpy.zeros((shards, *weights.shape), "float32")
        for shard in own:
            by_shard[shard] = of_one(weights, batch[shard])
        total = numpy.zeros_like(weights)
        for gradient in seen(placed(by_shard)):
            total += gradient
        momentum = numpy.float32(0.9) * seen(state["momentum"]) + total
        return {"weights": placed(weights - numpy.float32(0.01) * momentum), "momentum": placed(momentum)}

    return train


if __name__ == "__main__":
    main()
