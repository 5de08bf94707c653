"""A small model under torchrun: DDP over Gloo, and a distributed checkpoint to which each rank writes its part."""

from __future__ import annotations

import argparse
import hashlib
import os
import time
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
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    ranks = DistributedDataParallel(model)
    _step(ranks, optimizer, 0, rank)  # so that the optimizer has a state to load into
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 0}
    if given.begun:
        dcp.load(state, checkpoint_id=given.begun)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for step in range(int(state["step"]) + 1, given.steps + 1):
        _step(ranks, optimizer, step, rank)
        print(f"step {step}/{given.steps}", flush=True)
        time.sleep(0.5)  # noqa: TID251 - long enough to be killed
        if step % EVERY == 0:
            saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            dcp.save(saved, checkpoint_id=given.out / f"step-{step}")
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    (given.out / f"final-{os.environ['COSTGUARD_NODE_RANK']}").write_text(hashlib.sha256(weights).hexdigest())
    dist.barrier()
    dist.destroy_process_group()


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, rank: int) -> None:
    rows = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(1000 * step + rank))
    optimizer.zero_grad()
    (model(rows) - rows.flip(1)).square().mean().backward()
    optimizer.step()


if __name__ == "__main__":
    main()
