"""An ordinary training script: Trainer, a small GPT-2 made here, tokens from a folder. It handles no signal."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

LATE_S = 0.04  # of each row: storage that answers late, so that no machine is done before its first checkpoint travels


class Rows:
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        time.sleep(LATE_S)  # noqa: TID251 - as above
        return {"input_ids": self.rows[number], "labels": self.rows[number]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--max_steps", type=int, default=90)
    parser.add_argument("--save_steps", type=int, default=15)
    parser.add_argument("--resume_from_checkpoint")
    given = parser.parse_args()
    torch.set_num_threads(1)
    set_seed(7)
    model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_head=4, n_embd=128, n_positions=128, vocab_size=1024))
    rows = numpy.concatenate([numpy.load(path) for path in sorted(given.data.glob("tokens-*.npy"))])
    arguments = TrainingArguments(
        given.output_dir,
        max_steps=given.max_steps,
        save_steps=given.save_steps,
        per_device_train_batch_size=8,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        logging_steps=5,
        seed=7,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(model, arguments, train_dataset=Rows(torch.from_numpy(rows).long()))
    trainer.train(resume_from_checkpoint=given.resume_from_checkpoint)
    trainer.save_model(given.model_dir)


main()
