"""An ordinary training script: Lightning with a ModelCheckpoint, rows from a folder. It handles no signal."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import lightning
import numpy
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

LATE_S = 0.3  # of each batch: storage that answers late, so that no machine is done before its first checkpoint travels


class NextToken(lightning.LightningModule):  # type: ignore[misc] # the base is not typed here
    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(1024, 128)
        self.past = torch.nn.LSTM(128, 256, batch_first=True)
        self.head = torch.nn.Linear(256, 1024)

    def training_step(self, batch: Any, _: int) -> Any:
        time.sleep(LATE_S)  # noqa: TID251 - as above
        seen, _ = self.past(self.words(batch[:, :-1]))
        loss = torch.nn.functional.cross_entropy(self.head(seen).flatten(0, 1), batch[:, 1:].flatten())
        if self.global_step % 5 == 0:
            print(f"step {self.global_step} loss {loss.item():.4f}", flush=True)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--checkpoints", required=True)
    parser.add_argument("--model_dir", type=Path, required=True)
    parser.add_argument("--max_epochs", type=int, default=6)
    parser.add_argument("--ckpt_path")
    given = parser.parse_args()
    torch.set_num_threads(1)
    lightning.seed_everything(7, verbose=False)
    rows = numpy.concatenate([numpy.load(path) for path in sorted(given.data.glob("tokens-*.npy"))])
    batches = torch.utils.data.DataLoader(torch.from_numpy(rows).long(), batch_size=16)
    model = NextToken()
    trainer = lightning.Trainer(
        max_epochs=given.max_epochs,
        limit_train_batches=15,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ModelCheckpoint(given.checkpoints, save_top_k=-1, save_last=True)],
    )
    trainer.fit(model, batches, ckpt_path=given.ckpt_path)
    given.model_dir.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), given.model_dir / "model.pt")


main()
