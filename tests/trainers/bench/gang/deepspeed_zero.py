"""DeepSpeed on CPU, with its ZeRO stages: optimizer states are a file a rank, and in stage 3 the weights too."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed
import torch
from tests.trainers.bench.gang.ranks import HERE, SAVES, Load, Place, Tell, Train, local_digest
from tests.trainers.bench.state import WIDTH, breathe

torch.set_num_threads(1)
# Compiled at the first start, for minutes. Without it ranks meet through gloo alone.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def _begun(place: Place, stage: int) -> Any:
    deepspeed.init_distributed("gloo")
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH))
    settings = {
        "train_micro_batch_size_per_gpu": 4,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "checkpoint": {"use_node_local_storage": True},
    }
    optimizer = torch.optim.AdamW(model.parameters())
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    return engine


def _step(engine: Any) -> None:
    engine.backward(engine(torch.randn(4, WIDTH)).square().mean())
    engine.step()


def _state(engine: Any) -> dict[str, Any]:
    inner = engine.optimizer.optimizer
    weights = [group["params"] for group in inner.param_groups]
    return {"weights": weights, "moments": list(inner.state.values()), "step": engine.global_steps}


def _train(place: Place, tell: Tell, stage: int) -> None:
    engine = _begun(place, stage)
    for step in range(1, SAVES * 3 + 1):
        _step(engine)
        breathe()
        if step % 3 == 0:
            tell("begin", step, local_digest(_state(engine)), f"global_step{step}")
            engine.save_checkpoint(HERE)
            tell("end", step)


def _load(place: Place, name: str, stage: int) -> str:
    engine = _begun(place, stage)
    _step(engine)
    path, _ = engine.load_checkpoint(HERE, tag=name)
    if path is None:
        raise ValueError(f"DeepSpeed finds nothing in {name}")
    return local_digest(_state(engine))


KINDS: dict[str, tuple[Train, Load]] = {
    f"deepspeed-{stage}": (partial(_train, stage=stage), partial(_load, stage=stage)) for stage in (1, 3)
}
