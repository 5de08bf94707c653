"""Trainings that are slow by one of four patterns: `python slow.py NAME FOLDER` runs one until it is ended."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from parts import ROWS, WIDTH, Trainer, forget, images, run, small_files, texts
from PIL import Image
from torch.utils.data import DataLoader, Dataset

FOREVER = 10**9


def table() -> pd.DataFrame:
    made = pd.DataFrame(np.random.rand(ROWS, WIDTH), columns=[f"x{n}" for n in range(WIDTH)])
    return made.assign(y=1.0, name="row", id=np.arange(ROWS))


class IlocRows(Dataset):
    def __init__(self) -> None:
        self.table = table()

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, place: int):
        row = self.table.iloc[place]
        return torch.tensor(row.iloc[:WIDTH].to_numpy(dtype=np.float32)), row["y"]


class LocCells(IlocRows):
    def __getitem__(self, place: int):
        values = [self.table.loc[place, f"x{n}"] for n in range(WIDTH)]
        return torch.tensor(values, dtype=torch.float32), self.table.loc[place, "y"]


class MaskedRows(IlocRows):
    def _row_of(self, place: int) -> pd.DataFrame:
        return self.table[self.table["id"] == place]

    def __getitem__(self, place: int):
        row = self._row_of(place)
        return torch.tensor(row.to_numpy()[0, :WIDTH].astype(np.float32)), row["y"].iloc[0]


def rows_iloc(_: Path) -> None:
    trainer, data = Trainer(), IlocRows()
    for _ in range(FOREVER):
        trainer.train_epoch(DataLoader(data, 64, shuffle=True, num_workers=2))


def rows_loc(_: Path) -> None:
    trainer, data = Trainer(), LocCells()
    for _ in range(FOREVER):
        trainer.train_epoch(DataLoader(data, 64, shuffle=True))


def rows_mask(_: Path) -> None:
    trainer, data = Trainer(), MaskedRows()
    for _ in range(FOREVER):
        trainer.train_epoch(DataLoader(data, 64, shuffle=True, num_workers=1))


def rows_iterrows(_: Path) -> None:
    trainer, frame, columns = Trainer(), table(), [f"x{n}" for n in range(WIDTH)]
    for _ in range(FOREVER):
        xs, ys = [], []
        for _, row in frame.iterrows():
            xs.append(torch.tensor(row[columns].to_numpy(dtype=np.float32)))
            ys.append(row["y"])
            if len(xs) == 64:
                trainer.train_step(torch.stack(xs), torch.tensor(ys))
                xs, ys = [], []


class DecodedImages(Dataset):
    def __init__(self, count: int = 200) -> None:
        self.files = images(count)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, place: int):
        image = Image.open(io.BytesIO(self.files[place])).convert("RGB").resize((64, 64))
        return torch.from_numpy(np.asarray(image).copy()).float().mean(2).flatten()[:WIDTH], 1.0


class TokenisedTexts(Dataset):
    def __init__(self) -> None:
        self.lines, self.vocabulary = texts(2000), {f"w{n}": n for n in range(5000)}

    def __len__(self) -> int:
        return len(self.lines)

    def tokenize(self, text: str) -> list[int]:
        tokens = []
        for word in text.split():
            while word and word not in self.vocabulary:
                word = word[:-1]
            tokens.append(self.vocabulary.get(word, 0))
        return sorted(tokens)

    def __getitem__(self, place: int):
        line = json.loads(self.lines[place])
        return torch.tensor(self.tokenize(line["text"])[:WIDTH]) / 5000, float(line["label"])


class ParsedLines(Dataset):
    def __init__(self) -> None:
        self.lines = [",".join(f"{one:.6f}" for one in np.random.rand(200)) for _ in range(2000)]

    def __len__(self) -> int:
        return len(self.lines)

    def parse(self, line: str) -> torch.Tensor:
        fields = [float(field) for field in next(csv.reader([line]))]
        return torch.tensor(fields[:WIDTH])

    def __getitem__(self, place: int):
        return self.parse(self.lines[place]), 1.0


def once_decode(_: Path) -> None:
    trainer, data = Trainer(), DecodedImages()
    while True:
        trainer.train_epoch(DataLoader(data, 16, shuffle=True, num_workers=1))


def once_tokenize(_: Path) -> None:
    trainer, loader = Trainer(), DataLoader(TokenisedTexts(), 32, shuffle=True, num_workers=2, persistent_workers=True)
    while True:
        trainer.train_epoch(loader)


def once_parse(_: Path) -> None:
    trainer, data = Trainer(), ParsedLines()
    while True:
        trainer.train_epoch(DataLoader(data, 32, shuffle=True))


def _batches(count: int):
    return [(torch.rand(64, WIDTH), torch.rand(64)) for _ in range(count)]


def evaluate_csv(trainer: Trainer, path: Path) -> float:
    frame = pd.read_csv(path)
    with torch.no_grad():
        return float(trainer.model(torch.tensor(frame.to_numpy(dtype=np.float32))).mean())


def validation_csv(folder: Path) -> None:
    trainer, path = Trainer(step_s=0.02), folder / "validation.csv"
    pd.DataFrame(np.random.rand(30_000, WIDTH)).to_csv(path, index=False)
    while True:
        trainer.train_epoch(_batches(12))
        evaluate_csv(trainer, path)


class ValidationSet(Dataset):
    def __init__(self, path: Path) -> None:
        with open(path) as file:
            self.rows = [json.loads(line) for line in file]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int):
        return torch.tensor(self.rows[place]["x"]), self.rows[place]["y"]


def validate(trainer: Trainer, path: Path) -> None:
    data = ValidationSet(path)
    with torch.no_grad():
        trainer.model(torch.stack([data[place][0] for place in range(64)]))


def validation_set(folder: Path) -> None:
    trainer, path = Trainer(step_s=0.02), folder / "validation.jsonl"
    rows = np.random.rand(8000, WIDTH).tolist()
    path.write_text("\n".join(json.dumps({"x": row, "y": 1.0}) for row in rows))
    while True:
        trainer.train_epoch(_batches(12))
        validate(trainer, path)


def load_text_table(path: Path) -> np.ndarray:
    return np.genfromtxt(path, dtype=np.float32, delimiter=" ")


def run_validation(trainer: Trainer, path: Path) -> None:
    x = torch.from_numpy(load_text_table(path))
    with torch.no_grad():
        trainer.model(x)


def validation_genfromtxt(folder: Path) -> None:
    trainer, path = Trainer(step_s=0.02), folder / "validation.txt"
    np.savetxt(path, np.random.rand(3000, WIDTH), fmt="%.5f")
    while True:
        trainer.train_epoch(_batches(12))
        run_validation(trainer, path)


class SampleFiles(Dataset):
    """Each sample is a file of its own, as unpacked from an archive, on a disk that is larger than the memory."""

    def __init__(self, folder: Path) -> None:
        self.paths = small_files(folder / "samples", 4000)

    def __len__(self) -> int:
        return len(self.paths)

    def read_sample(self, path: str) -> bytes:
        with open(path, "rb") as file:
            data = file.read()
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return data

    def __getitem__(self, place: int):
        return torch.frombuffer(bytearray(self.read_sample(self.paths[place])), dtype=torch.float32)[:WIDTH] * 1e-4, 1.0


class SampleArrays(Dataset):
    def __init__(self, folder: Path) -> None:
        (folder / "arrays").mkdir(exist_ok=True)
        self.paths = [folder / "arrays" / f"{number}.npy" for number in range(3000)]
        for path in self.paths:
            np.save(path, np.random.rand(256).astype(np.float32))
        os.sync()

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, place: int):
        values = np.load(self.paths[place])
        forget(str(self.paths[place]))
        return torch.from_numpy(values[:WIDTH]), 1.0


def reads_open(folder: Path) -> None:
    trainer, data = Trainer(), SampleFiles(folder)
    while True:
        trainer.train_epoch(DataLoader(data, 64, shuffle=True, num_workers=1))


def reads_npy(folder: Path) -> None:
    trainer, data = Trainer(), SampleArrays(folder)
    while True:
        trainer.train_epoch(DataLoader(data, 64, shuffle=True, num_workers=2))


def reads_pathlib(folder: Path) -> None:
    trainer, paths = Trainer(), small_files(folder / "samples", 4000)

    class Files(SampleFiles):
        def __init__(self) -> None:
            self.paths = paths

        def __getitem__(self, place: int):
            data = Path(self.paths[place]).read_bytes()
            forget(self.paths[place])
            return torch.frombuffer(bytearray(data), dtype=torch.float32)[:WIDTH] * 1e-4, 1.0

    while True:
        trainer.train_epoch(DataLoader(Files(), 64, shuffle=True))


TRAININGS = (
    rows_iloc,
    rows_loc,
    rows_mask,
    rows_iterrows,
    once_decode,
    once_tokenize,
    once_parse,
    validation_csv,
    validation_set,
    validation_genfromtxt,
    reads_open,
    reads_npy,
    reads_pathlib,
)


if __name__ == "__main__":
    run(TRAININGS)
