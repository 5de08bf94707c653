"""A small model in JAX on several processes: rows are sharded over them, and Orbax saves from all."""

from __future__ import annotations

import argparse
import hashlib
import os
import time
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
    given = parser.parse_args()
    # The coordinator's address comes from JAX_COORDINATOR_ADDRESS; JAX reads no variable for the other two.
    nodes, node = int(os.environ["JAX_NUM_PROCESSES"]), int(os.environ["JAX_PROCESS_ID"])
    jax.distributed.initialize(num_processes=nodes, process_id=node)
    mesh = jax.make_mesh((nodes,), ("nodes",))
    split, whole = NamedSharding(mesh, PartitionSpec("nodes")), NamedSharding(mesh, PartitionSpec())

    def shared(value: numpy.ndarray[Any, Any], sharding: NamedSharding) -> jax.Array:
        return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])

    weights = numpy.random.default_rng(1).standard_normal((nodes * WIDTH, WIDTH)).astype("float32")
    state = {"weights": shared(weights, split), "momentum": shared(0 * weights, split)}
    manager = ocp.CheckpointManager(given.out, options=ocp.CheckpointManagerOptions(enable_async_checkpointing=False))
    first = 0
    if given.begun:
        first = int(Path(given.begun).name)
        state = manager.restore(first, args=ocp.args.StandardRestore(state))

    def trained(state: dict[str, jax.Array], rows: jax.Array) -> dict[str, jax.Array]:
        def loss(weights: jax.Array) -> jax.Array:
            return jax.numpy.square(rows @ weights.reshape(nodes, WIDTH, WIDTH).sum(0) - rows[:, ::-1]).mean()

        momentum = 0.9 * state["momentum"] + jax.grad(loss)(state["weights"])
        return {"weights": state["weights"] - 0.01 * momentum, "momentum": momentum}

    train = jax.jit(trained)
    for step in range(first + 1, given.steps + 1):
        rows = numpy.random.default_rng(step).standard_normal((nodes * ROWS, WIDTH)).astype("float32")
        state = train(state, shared(rows, split))
        jax.block_until_ready(state)
        print(f"step {step}/{given.steps}", flush=True)
        time.sleep(0.5)  # noqa: TID251 - long enough to be killed
        if step % EVERY == 0:
            manager.save(step, args=ocp.args.StandardSave(state))
            manager.wait_until_finished()
    final = jax.jit(lambda one: one, out_shardings=whole)(state["weights"])
    digest = hashlib.sha256(numpy.asarray(final).tobytes()).hexdigest()
    (given.out.parent / f"final-{node}").write_text(digest)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
