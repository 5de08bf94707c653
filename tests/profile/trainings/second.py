"""More trainings, written after the rules and judged once: `python second.py NAME FOLDER` runs one until it is ended.

The slow ones begin with the name of their pattern, the sound ones with `fine`.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from parts import WIDTH, Trainer, forget, run
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Sampler, Subset, TensorDataset


class Tracks(Dataset):
    """A metadata table with a row for each track, looked up by its name."""

    def __init__(self) -> None:
        names = [f"track-{number}" for number in range(5000)]
        self.meta = pd.DataFrame({"genre": 1.0, "tempo": 2.0, "key": 3.0}, index=names)
        self.names, self.waves = names, torch.rand(5000, WIDTH)

    def __len__(self) -> int:
        return len(self.names)

    def label_of(self, name: str) -> float:
        entry = self.meta.loc[name]
        return float(entry["genre"] + entry["tempo"] + entry["key"] + self.meta.at[name, "key"])

    def __getitem__(self, place: int):
        return self.waves[place], self.label_of(self.names[place])


def rows_of_names(_: Path) -> None:
    data = Subset(Tracks(), range(4000))
    trainer = Trainer()
    while True:
        trainer.train_epoch(DataLoader(data, 32, shuffle=True, num_workers=2))


def frames_of_one_batch(table: pd.DataFrame, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    order = np.random.permutation(len(table))
    for start in range(0, len(order) - size, size):
        rows = [table.iloc[place] for place in order[start : start + size]]
        yield torch.tensor(np.stack([row.to_numpy() for row in rows]), dtype=torch.float32), torch.ones(size)


def rows_of_batches(_: Path) -> None:
    table, trainer = pd.DataFrame(np.random.rand(10_000, WIDTH)), Trainer()
    while True:
        for x, y in frames_of_one_batch(table, 64):
            trainer.train_step(x, y)


class Archive(Dataset):
    """Compressed JSON in memory."""

    def __init__(self) -> None:
        text = json.dumps({"values": np.random.rand(600).tolist()}).encode()
        self.blobs = [gzip.compress(text) for _ in range(500)]

    def __len__(self) -> int:
        return len(self.blobs)

    def __getitem__(self, place: int):
        values = json.loads(gzip.decompress(self.blobs[place]))["values"]
        return torch.tensor(values[:WIDTH]), 1.0


def once_gzip(_: Path) -> None:
    trainer, data = Trainer(), Archive()
    while True:
        trainer.train_epoch(DataLoader(data, 32, shuffle=True, num_workers=1))


class Spectra(Dataset):
    def __init__(self) -> None:
        self.samples = np.random.rand(400, 16_000)

    def __len__(self) -> int:
        return len(self.samples)

    def mel_spectrogram(self, samples: np.ndarray) -> np.ndarray:
        windows = np.lib.stride_tricks.sliding_window_view(samples, 512)[::128]
        return np.abs(np.fft.rfft(windows * np.hanning(512))).mean(0)

    def features(self, samples: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(self.mel_spectrogram(samples)[:WIDTH]).float() / 100

    def __getitem__(self, place: int):
        return self.features(self.samples[place]), 1.0


def once_features(_: Path) -> None:
    trainer, data = Trainer(), Spectra()
    while True:
        trainer.train_epoch(DataLoader(data, 16, shuffle=True))


class LitModule:
    """A loop in the style of Lightning."""

    def __init__(self, folder: Path, trainer: Trainer) -> None:
        self.folder, self.trainer = folder, trainer

    def on_validation_epoch_start(self) -> None:
        with open(self.folder / "held-out.pkl", "rb") as file:
            self.held_out = pickle.load(file)

    def validation_step(self) -> None:
        with torch.no_grad():
            self.trainer.model(torch.tensor([row["x"] for row in self.held_out[:64]]))

    def fit(self) -> None:
        batches = [(torch.rand(64, WIDTH), torch.rand(64)) for _ in range(10)]
        while True:
            self.trainer.train_epoch(batches)
            self.on_validation_epoch_start()
            self.validation_step()


def validation_pickle(folder: Path) -> None:
    rows = [{"x": np.random.rand(WIDTH).tolist(), "id": str(number)} for number in range(40_000)]
    (folder / "held-out.pkl").write_bytes(pickle.dumps(rows))
    LitModule(folder, Trainer(step_s=0.02)).fit()


class Samples(Dataset):
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "samples"
        self.folder.mkdir()
        for number in range(1500):
            torch.save({"x": torch.rand(WIDTH), "y": 1.0}, self.folder / f"{number}.pt")
        os.sync()

    def __len__(self) -> int:
        return 1500

    def __getitem__(self, place: int):
        path = self.folder / f"{place}.pt"
        sample = torch.load(path)
        forget(str(path))
        return sample["x"], sample["y"]


def reads_saved_tensors(folder: Path) -> None:
    trainer, data = Trainer(), Samples(folder)
    while True:
        trainer.train_epoch(DataLoader(data, 32, shuffle=True, num_workers=2))


class Waves(Dataset):
    def __init__(self, folder: Path) -> None:
        self.paths = [folder / f"{number}.wav" for number in range(2000)]
        for path in self.paths:
            with wave.open(str(path), "wb") as file:
                file.setparams((1, 2, 16_000, 0, "NONE", "none"))
                file.writeframes(np.zeros(2000, dtype=np.int16).tobytes())
        os.sync()

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, place: int):
        with wave.open(str(self.paths[place])) as file:
            data = np.frombuffer(file.readframes(2000), dtype=np.int16)
        forget(str(self.paths[place]))
        return torch.from_numpy(data[:WIDTH].astype(np.float32)), 1.0


def reads_waves(folder: Path) -> None:
    trainer, data = Trainer(), Waves(folder)
    while True:
        trainer.train_epoch(DataLoader(data, 32, shuffle=True, num_workers=1))


class Buckets(Sampler):
    """Batches of alike lengths."""

    def __init__(self, count: int) -> None:
        self.lengths = np.random.randint(4, WIDTH, count)

    def __iter__(self):
        order = np.argsort(self.lengths + np.random.rand(len(self.lengths)))
        yield from (order[start : start + 32].tolist() for start in range(0, len(order), 32))

    def __len__(self) -> int:
        return len(self.lengths) // 32


def pad(rows):
    return torch.stack([x for x, _ in rows]), torch.tensor([y for _, y in rows])


def fine_buckets(_: Path) -> None:
    trainer, data = Trainer(hidden=8000), TensorDataset(torch.rand(4000, WIDTH), torch.rand(4000))
    loader = DataLoader(data, batch_sampler=Buckets(4000), collate_fn=pad)
    while True:
        trainer.train_epoch(loader)


def fine_parts_together(_: Path) -> None:
    parts = ConcatDataset([Subset(Tracks(), range(1000)), Tracks()])
    loader, trainer = DataLoader(parts, 16, num_workers=2, persistent_workers=True), Trainer(step_s=0.2)
    while True:
        trainer.train_epoch(loader)


def fine_features_kept(_: Path) -> None:
    data, cache = Spectra(), {}

    class Kept(Dataset):
        def __len__(self) -> int:
            return len(data)

        def __getitem__(self, place: int):
            if place not in cache:
                cache[place] = data[place]
            return cache[place]

    trainer = Trainer(hidden=20_000)
    while True:
        trainer.train_epoch(DataLoader(Kept(), 64, shuffle=True))


def fine_evaluates_much(_: Path) -> None:
    trainer, held_out = Trainer(step_s=0.01), torch.rand(100_000, WIDTH)

    def evaluate_model() -> float:
        with torch.no_grad():
            return float(sum(trainer.model(part).sum() for part in held_out.split(1000)))

    batches = [(torch.rand(64, WIDTH), torch.rand(64)) for _ in range(5)]
    while True:
        trainer.train_epoch(batches)
        evaluate_model()


def fine_reads_ahead(folder: Path) -> None:
    loader = DataLoader(Samples(folder), 16, num_workers=2, prefetch_factor=8, persistent_workers=True)
    trainer = Trainer(step_s=0.3)
    while True:
        trainer.train_epoch(loader)


TRAININGS = (
    rows_of_names,
    rows_of_batches,
    once_gzip,
    once_features,
    validation_pickle,
    reads_saved_tensors,
    reads_waves,
    fine_buckets,
    fine_parts_together,
    fine_features_kept,
    fine_evaluates_much,
    fine_reads_ahead,
)


if __name__ == "__main__":
    run(TRAININGS)
