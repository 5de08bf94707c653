"""Lightning's ModelParallelStrategy on CPU, whose checkpoints are folders of DCP with a `meta.pt`."""

from __future__ import annotations

from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import ModelParallelStrategy
from tests.trainers.bench.gang.ranks import HERE, SAVES, Load, Place, Tell, Train, local_digest
from tests.trainers.bench.state import WIDTH, Restored
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard

torch.set_num_threads(1)


class _Model(lightning.LightningModule):  # type: ignore[misc] # the base is not typed here
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH))

    def configure_model(self) -> None:
        fully_shard(self.layers, mesh=self.device_mesh["data_parallel"])

    def training_step(self, batch: Any, _: int) -> Any:
        return self.layers(batch).square().mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters())


def _state(trainer: Any) -> dict[str, Any]:
    weights, moments = get_state_dict(trainer.model, trainer.optimizers[0])
    return {"model": weights, "optimizer": moments["state"], "step": trainer.global_step}


def _trainer(place: Place, callback: Any) -> tuple[Any, Any, Any]:
    trainer = lightning.Trainer(
        max_steps=SAVES * 3,
        accelerator="cpu",
        devices=place.per_node,
        num_nodes=place.ranks // place.per_node,
        strategy=ModelParallelStrategy(data_parallel_size=place.ranks, tensor_parallel_size=1),
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        callbacks=[callback],
    )
    return trainer, _Model(), torch.utils.data.DataLoader(torch.randn(256, WIDTH), batch_size=4)


def _train(place: Place, tell: Tell) -> None:
    class Saves(Callback):  # type: ignore[misc] # the base is not typed here
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            step = trainer.global_step
            if step % 3 == 0:
                tell("begin", step, local_digest(_state(trainer)), f"step={step}.ckpt")
                trainer.save_checkpoint(f"{HERE}/step={step}.ckpt")
                tell("end", step)

    trainer, model, data = _trainer(place, Saves())
    trainer.fit(model, data)


def _load(place: Place, name: str) -> str:
    digests = []

    class Looks(Callback):  # type: ignore[misc] # the base is not typed here
        def on_train_start(self, trainer: Any, _: Any) -> None:
            digests.append(local_digest(_state(trainer)))
            raise Restored

    trainer, model, data = _trainer(place, Looks())
    trainer.fit_loop.epoch_loop.max_steps += 1  # else the last checkpoint has nothing left to do
    try:
        trainer.fit(model, data, ckpt_path=f"{HERE}/{name}")
    except Restored:
        return digests[0]
    raise ValueError("it resumed without a step")


KINDS: dict[str, tuple[Train, Load]] = {"lightning-sharded": (_train, _load)}
