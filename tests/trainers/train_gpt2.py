"""An ordinary training script of a user's: it knows nothing of Costguard, and handles no signal.

Runs in the trainers' environment: Trainer, a GPT-2 of two small layers made here, numbers instead of text.
"""

from __future__ import annotations

import argparse

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--max_steps", type=int, default=120)
    parser.add_argument("--save_steps", type=int, default=15)
    parser.add_argument("--resume_from_checkpoint")
    given = parser.parse_args()
    torch.set_num_threads(1)
    set_seed(7)
    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=4, n_embd=128, n_positions=64, vocab_size=1024))
    rows = torch.randint(0, 1024, (512, 64), generator=torch.Generator().manual_seed(2))
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
    trainer = Trainer(model, arguments, train_dataset=[{"input_ids": row, "labels": row} for row in rows])
    trainer.train(resume_from_checkpoint=given.resume_from_checkpoint)
    trainer.save_model(f"{given.output_dir}/final")


main()
