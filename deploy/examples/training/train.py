"""Trains a small text classifier with the Hugging Face Trainer, and goes on from a checkpoint where one is given.

Without `data` in the settings it learns from sentences made up here, so that it runs anywhere, without a download.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

GOOD = ("good", "great", "fine", "bright", "warm", "kind", "clear", "quick")
BAD = ("bad", "poor", "grim", "dull", "cold", "cruel", "vague", "slow")
PLAIN = ("the", "a", "film", "was", "story", "its", "end", "and", "cast", "of", "this", "very")
WORDS = ("[pad]", "[unknown]", *GOOD, *BAD, *PLAIN)
IDS = {word: number for number, word in enumerate(WORDS)}
LENGTH = 16


class Sentences(torch.utils.data.Dataset):
    """Rows of word ids, each with 1 for praise and 0 for the rest."""

    def __init__(self, rows: list[tuple[str, int]]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        text, label = self._rows[number]
        ids = [IDS.get(word, 1) for word in text.lower().split()][:LENGTH]
        padded = torch.tensor(ids + [0] * (LENGTH - len(ids)))
        return {"input_ids": padded, "attention_mask": (padded != 0).long(), "labels": torch.tensor(label)}


def made_up(count: int, seed: int) -> list[tuple[str, int]]:
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        label = chance.randrange(2)
        words = [*chance.choices(PLAIN, k=9), *chance.choices(GOOD if label else BAD, k=3)]
        chance.shuffle(words)
        rows.append((" ".join(words), label))
    return rows


def read(folder: Path) -> list[tuple[str, int]]:
    """JSON lines with `text` and `label`."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines() if line]
    return [(row["text"], int(row["label"])) for row in map(json.loads, lines)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="a file with settings, such as conf/base.json")
    parser.add_argument("--output", type=Path, required=True, help="where checkpoints and the model go")
    parser.add_argument("--data", type=Path, help="a folder with *.jsonl files; without one, sentences are made up")
    parser.add_argument("--resume", help="the checkpoint to go on from")
    given = parser.parse_args()
    config = json.loads(given.config.read_text())
    set_seed(config["seed"])
    rows = read(given.data) if given.data else made_up(config["sentences"], config["seed"])
    if not rows:
        parser.error(f"{given.data} holds no sentences: bring *.jsonl files there")
    held_out = max(1, len(rows) // 10)
    model = BertForSequenceClassification(BertConfig(vocab_size=len(WORDS), num_labels=2, **config["model"]))
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(given.output),
            report_to=[],
            logging_steps=config["save_steps"],
            save_strategy="steps",
            eval_strategy="steps",
            eval_steps=config["save_steps"],
            save_steps=config["save_steps"],
            save_total_limit=2,
            seed=config["seed"],
            **config["training"],
        ),
        train_dataset=Sentences(rows[held_out:]),
        eval_dataset=Sentences(rows[:held_out]),
    )
    trainer.train(resume_from_checkpoint=given.resume)
    trainer.save_model(str(given.output / "final"))
    print(f"val_loss {trainer.evaluate()['eval_loss']:.4f}")


if __name__ == "__main__":
    main()
