"""PyTorch's own sharding (FSDP2) on CPU, saved by DCP: as it is called, and in the background."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from tests.trainers.bench.gang.ranks import HERE, SAVES, Load, Place, Tell, Train, local_digest
from tests.trainers.bench.state import WIDTH, breathe
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

torch.set_num_threads(1)


def _begun(place: Place) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    dist.init_process_group("cpu:gloo")
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WIDTH))
    fully_shard(model, mesh=init_device_mesh("cpu", (place.ranks,)))
    return model, torch.optim.AdamW(model.parameters())


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.randn(4, WIDTH)).square().mean().backward()
    optimizer.step()


def _state(model: Any, optimizer: Any, step: int) -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimizer)
    return {"global_step": step, "model": weights, "optimizer": moments}


def _train(place: Place, tell: Tell, in_background: bool) -> None:
    model, optimizer = _begun(place)
    # A save in the background needs ranks that meet apart from the training's, or both wait for each other.
    apart = dist.new_group(backend="gloo")
    saving = None
    for step in range(1, SAVES * 5 + 1):
        _step(model, optimizer)
        breathe()
        if step % 5 == 0:
            if saving is not None:
                saving.result()
                tell("end", step - 5)
            state = _state(model, optimizer, step)
            tell("begin", step, local_digest(state), f"step-{step}")
            if in_background:
                saving = dcp.async_save(state, checkpoint_id=f"{HERE}/step-{step}", process_group=apart)
            else:
                dcp.save(state, checkpoint_id=f"{HERE}/step-{step}")
                tell("end", step)
    if saving is not None:
        saving.result()
        tell("end", SAVES * 5)
    dist.destroy_process_group()


def _load(place: Place, name: str) -> str:
    model, optimizer = _begun(place)
    _step(model, optimizer)
    state = _state(model, optimizer, 0)
    dcp.load(state, checkpoint_id=f"{HERE}/{name}")
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return local_digest(_state(model, optimizer, state["global_step"]))


KINDS: dict[str, tuple[Train, Load]] = {
    "dcp": (partial(_train, in_background=False), _load),
    "dcp-async": (partial(_train, in_background=True), _load),
}
