"""PyTorch without a framework: torch.save in its two formats, a file that is written over, and DCP's folders."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from tests.trainers.bench.state import SAVES, WIDTH, Load, Tell, Train, breathe, digest

torch.set_num_threads(1)
Save = Callable[[Any, str], None]


def _begun() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    model = torch.nn.Linear(WIDTH, WIDTH)
    return model, torch.optim.AdamW(model.parameters())


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.randn(4, WIDTH)).square().mean().backward()
    optimizer.step()


def _state(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> dict[str, Any]:
    return {"global_step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}


def _train(folder: str, tell: Tell, name: str, save: Save) -> None:
    model, optimizer = _begun()
    for step in range(1, SAVES * 5 + 1):
        _step(model, optimizer)
        breathe()
        if step % 5 == 0:
            state = _state(model, optimizer, step)
            path = os.path.join(folder, name.format(step=step))
            tell("begin", step, digest(state), path)
            save(state, path)
            tell("end", step)


def _save_aside(state: Any, path: str) -> None:
    """Saves as careful scripts do: written under another name, then renamed into place."""
    torch.save(state, f"{path}.tmp")
    os.replace(f"{path}.tmp", path)


def _load(path: str) -> str:
    return digest(torch.load(path, weights_only=True))


def _save_dcp(state: Any, path: str) -> None:
    dcp.save(state, checkpoint_id=path, no_dist=True)


def _load_dcp(path: str) -> str:
    model, optimizer = _begun()
    _step(model, optimizer)
    state = _state(model, optimizer, 0)
    dcp.load(state, checkpoint_id=path, no_dist=True)
    return digest(state)


_save_legacy: Save = partial(torch.save, _use_new_zipfile_serialization=False)

KINDS: dict[str, tuple[Train, Load]] = {
    "torch-zip": (partial(_train, name="ckpt_{step}.pt", save=torch.save), _load),
    "torch-legacy": (partial(_train, name="ckpt_{step}.pt", save=_save_legacy), _load),
    "torch-overwritten": (partial(_train, name="checkpoint.pt", save=torch.save), _load),
    "torch-overwritten-legacy": (partial(_train, name="checkpoint.pt", save=_save_legacy), _load),
    "torch-renamed": (partial(_train, name="checkpoint.pt", save=_save_aside), _load),
    "torch-dcp": (partial(_train, name="step-{step}", save=_save_dcp), _load_dcp),
}


def _warm() -> None:
    """Imports what PyTorch imports at the first step and save, which takes seconds: every training is forked
    from here.
    """
    with tempfile.TemporaryDirectory() as folder:
        model, optimizer = _begun()
        _step(model, optimizer)
        _save_dcp(_state(model, optimizer, 0), folder)
        _load_dcp(folder)


_warm()
