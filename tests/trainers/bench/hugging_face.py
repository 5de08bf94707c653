"""Hugging Face Trainer: a GPT-2 of one small layer, which keeps its three newest checkpoints."""

from __future__ import annotations

from typing import Any

import torch
from tests.trainers.bench.state import SAVES, Load, Restored, Tell, Train, digest
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

torch.set_num_threads(1)


def _trainer(folder: str) -> Any:
    set_seed(1)
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=64, n_positions=8, vocab_size=2048))
    rows = torch.randint(0, 2048, (64, 8), generator=torch.Generator().manual_seed(2))
    arguments = TrainingArguments(
        folder,
        max_steps=SAVES * 3,
        save_steps=3,
        save_total_limit=3,
        per_device_train_batch_size=2,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        seed=1,
        dataloader_pin_memory=False,
    )
    return Trainer(model, arguments, train_dataset=[{"input_ids": row, "labels": row} for row in rows])


def _state(trainer: Any) -> dict[str, Any]:
    return {
        "model": trainer.model.state_dict(),
        "optimizer": trainer.optimizer.state_dict()["state"],
        "scheduler": trainer.lr_scheduler.last_epoch,
        "step": trainer.state.global_step,
    }


def _train(folder: str, tell: Tell) -> None:
    trainer = _trainer(folder)
    save = trainer._save_checkpoint

    def saving(*given: Any, **named: Any) -> None:
        step = trainer.state.global_step
        tell("begin", step, digest(_state(trainer)), f"{folder}/checkpoint-{step}")
        save(*given, **named)
        tell("end", step)

    trainer._save_checkpoint = saving
    trainer.train()


def _load(path: str) -> str:
    trainer = _trainer(f"{path}-resumed")
    digests = []

    class Looks(TrainerCallback):  # type: ignore[misc] # the base is not typed here
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            digests.append(digest(_state(trainer)))
            raise Restored

    trainer.args.max_steps += 1  # else the last checkpoint has nothing left to do
    trainer.add_callback(Looks())
    try:
        trainer.train(resume_from_checkpoint=path)
    except Restored:
        return digests[0]
    raise ValueError("it resumed without a step")


KINDS: dict[str, tuple[Train, Load]] = {"hugging-face": (_train, _load)}
