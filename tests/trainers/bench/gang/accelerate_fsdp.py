"""Accelerate's `save_state` with FSDP2 and sharded state dicts, as the Trainer's and many scripts' checkpoints are.

Accelerate turns FSDP on for accelerators alone. Here its state says that it is on, once its processes have met
on CPU; what it then prepares, saves and loads is its own code.
"""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from tests.trainers.bench.gang.ranks import HERE, SAVES, Load, Place, Tell, Train, local_digest
from tests.trainers.bench.state import WIDTH, breathe
from torch.distributed.checkpoint.state_dict import get_state_dict

torch.set_num_threads(1)


def _begun(place: Place) -> tuple[Any, Any, Any]:
    accelerator = Accelerator(cpu=True)
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, state_dict_type="SHARDED_STATE_DICT", auto_wrap_policy="no_wrap"
    )
    PartialState._shared_state["distributed_type"] = DistributedType.FSDP
    accelerator.state.distributed_type = DistributedType.FSDP
    accelerator.state.fsdp_plugin = plugin
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH))
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    return accelerator, model, optimizer


def _step(accelerator: Any, model: Any, optimizer: Any) -> None:
    optimizer.zero_grad()
    accelerator.backward(model(torch.randn(4, WIDTH)).square().mean())
    optimizer.step()


def _state(model: Any, optimizer: Any) -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimizer.optimizer)
    return {"model": weights, "optimizer": moments["state"]}


def _train(place: Place, tell: Tell) -> None:
    accelerator, model, optimizer = _begun(place)
    for step in range(1, SAVES * 3 + 1):
        _step(accelerator, model, optimizer)
        breathe()
        if step % 3 == 0:
            tell("begin", step, local_digest(_state(model, optimizer)), f"checkpoint_{step}")
            accelerator.save_state(f"{HERE}/checkpoint_{step}")
            tell("end", step)
    accelerator.end_training()


def _load(place: Place, name: str) -> str:
    accelerator, model, optimizer = _begun(place)
    _step(accelerator, model, optimizer)
    accelerator.load_state(f"{HERE}/{name}")
    return local_digest(_state(model, optimizer))


KINDS: dict[str, tuple[Train, Load]] = {"accelerate-fsdp": (_train, _load)}
