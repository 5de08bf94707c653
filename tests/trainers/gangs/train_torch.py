"""A small model under torchrun: DDP over Gloo, and a distributed checkpoint to which each rank writes its part.

With `--shards` any number of ranks makes the same steps to the last bit: each gradient is of one shard of the batch,
and they are added in the order of the shards, whichever rank computed them.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.nn.parallel import DistributedDataParallel

WIDTH, EVERY = 32, 5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--from", dest="begun", default="")
    parser.add_argument("--shards", type=int, default=0, help="of the batch, over any ranks; default: one for each")
    parser.add_argument("--last-after", type=Path, help="a file without which the last step does not begin")
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    make_step = _by_shards(model, optimizer, given.shards) if given.shards else _by_ranks(model, optimizer, rank)
    make_step(0)  # so that the optimizer has a state to load into
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 0}
    if given.begun:
        dcp.load(state, checkpoint_id=given.begun)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for step in range(int(state["step"]) + 1, given.steps + 1):
        while step == given.steps and given.last_after and not given.last_after.exists():
            time.sleep(0.05)  # noqa: TID251
        make_step(step)
        print(f"step {step}/{given.steps}", flush=True)
        if not (given.last_after and given.last_after.exists()):
            time.sleep(0.5)  # noqa: TID251 - long enough to be killed
        if step % EVERY == 0:
            saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            dcp.save(saved, checkpoint_id=given.out / f"step-{step}")
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    (given.out / f"final-{os.environ['COSTGUARD_NODE_RANK']}").write_text(hashlib.sha256(weights).hexdigest())
    dist.barrier()
    dist.destroy_process_group()


def _by_ranks(model: torch.nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> Callable[[int], None]:
    ranks = DistributedDataParallel(model)

    def make_step(step: int) -> None:
        optimizer.zero_grad()
        _loss(ranks, step, rank).backward()
        optimizer.step()

    return make_step


def _by_shards(model: torch.nn.Module, optimizer: torch.optim.Optimizer, shards: int) -> Callable[[int], None]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    parameters = list(model.parameters())

    def make_step(step: int) -> None:
        rows = torch.zeros(shards, sum(one.numel() for one in parameters))
        for shard in range(rank, shards, ranks):
            gradients = torch.autograd.grad(_loss(model, step, shard), parameters)
            rows[shard] = torch.cat([one.flatten() for one in gradients])
        dist.all_reduce(rows)  # each row is of one rank, and zeros of the others change no bit of it
        total = torch.zeros(rows.shape[1])
        for row in rows:
            total += row
        for one, gradient in zip(parameters, total.split([one.numel() for one in parameters]), strict=True):
            one.grad = gradient.view_as(one).clone()
        optimizer.step()

    return make_step


def _loss(model: torch.nn.Module, step: int, shard: int) -> torch.Tensor:
    rows = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(1000 * step + shard))
    loss: torch.Tensor = (model(rows) - rows.flip(1)).square().mean()
    return loss


if __name__ == "__main__":
    main()
