"""Lightning: a ModelCheckpoint that keeps every third step and a last.ckpt."""

from __future__ import annotations

from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from tests.trainers.bench.state import SAVES, WIDTH, Load, Restored, Tell, Train, digest

torch.set_num_threads(1)


class _Model(lightning.LightningModule):  # type: ignore[misc] # the base is not typed here
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(WIDTH, WIDTH)

    def training_step(self, batch: Any, _: int) -> Any:
        return self.layer(batch).square().mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters())


def _state(trainer: Any) -> dict[str, Any]:
    return {
        "model": trainer.model.state_dict(),
        "optimizer": trainer.optimizers[0].state_dict()["state"],
        "step": trainer.global_step,
    }


def _trainer(callbacks: list[Any], folder: str) -> tuple[Any, Any, Any]:
    lightning.seed_everything(1, verbose=False)
    trainer = lightning.Trainer(
        max_steps=SAVES * 3 + 1,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=callbacks,
        default_root_dir=folder,
    )
    data = torch.utils.data.DataLoader(torch.randn(256, WIDTH), batch_size=4)
    return trainer, _Model(), data


def _train(folder: str, tell: Tell) -> None:
    trainer, model, data = _trainer(
        [ModelCheckpoint(folder, every_n_train_steps=3, save_top_k=-1, save_last=True)], folder
    )
    save = trainer.save_checkpoint

    def saving(filepath: Any, *given: Any, **named: Any) -> None:
        tell("begin", trainer.global_step, digest(_state(trainer)), str(filepath))
        save(filepath, *given, **named)
        tell("end", trainer.global_step)

    trainer.save_checkpoint = saving
    trainer.fit(model, data)


def _load(path: str) -> str:
    digests = []

    class Looks(Callback):  # type: ignore[misc] # the base is not typed here
        def on_train_start(self, trainer: Any, _: Any) -> None:
            digests.append(digest(_state(trainer)))
            raise Restored

    trainer, model, data = _trainer([Looks()], f"{path}-resumed")
    try:
        trainer.fit(model, data, ckpt_path=path)
    except Restored:
        return digests[0]
    raise ValueError("it resumed without a step")


KINDS: dict[str, tuple[Train, Load]] = {"lightning": (_train, _load)}
