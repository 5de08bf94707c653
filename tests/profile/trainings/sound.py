"""Trainings whose data is no bottleneck: `python sound.py NAME FOLDER` runs one until it is ended."""

from __future__ import annotations

import io
import json
import queue
import tarfile
import threading
from pathlib import Path

import lmdb
import numpy as np
import pandas as pd
import torch
from parts import ROWS, WIDTH, Trainer, began, run
from slow import DecodedImages, IlocRows, TokenisedTexts, table
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

BUSY = 3000  # units of a hidden layer whose steps take a processor far longer than their data


class Rows(Dataset):
    def __init__(self, x, y=None) -> None:
        self.x, self.y = x, np.ones(len(x), dtype=np.float32) if y is None else y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, place: int):
        return self.x[place], self.y[place]


def forever(trainer: Trainer, loader) -> None:
    while True:
        trainer.train_epoch(loader)


def tensors_in_memory(_: Path) -> None:
    forever(
        Trainer(hidden=BUSY), DataLoader(TensorDataset(torch.rand(ROWS, WIDTH), torch.rand(ROWS)), 256, shuffle=True)
    )


def arrays_in_memory(_: Path) -> None:
    forever(Trainer(hidden=BUSY), DataLoader(Rows(np.random.rand(ROWS, WIDTH).astype(np.float32)), 256, shuffle=True))


def columns_as_arrays(_: Path) -> None:
    frame = table()
    x = frame[[f"x{n}" for n in range(WIDTH)]].to_numpy(dtype=np.float32)
    forever(Trainer(hidden=BUSY), DataLoader(Rows(x, frame["y"].to_numpy(dtype=np.float32)), 256, shuffle=True))


def memmap_shards(folder: Path) -> None:
    np.save(folder / "shard.npy", np.random.rand(ROWS, WIDTH).astype(np.float32))
    rows = Rows(np.load(folder / "shard.npy", mmap_mode="r"))
    forever(Trainer(step_s=0.03), DataLoader(rows, 64, shuffle=True, num_workers=2, persistent_workers=True))


class Records(Dataset):
    def __init__(self, folder: Path) -> None:
        self.folder, self.store = str(folder / "records"), None
        with lmdb.open(self.folder, map_size=1 << 28) as store, store.begin(write=True) as writing:
            for number in range(4000):
                writing.put(f"{number:08}".encode(), np.random.rand(WIDTH).astype(np.float32).tobytes())

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, place: int):
        if self.store is None:
            self.store = lmdb.open(self.folder, readonly=True, lock=False).begin()
        return torch.frombuffer(bytearray(self.store.get(f"{place:08}".encode())), dtype=torch.float32), 1.0


def lmdb_records(folder: Path) -> None:
    loader = DataLoader(Records(folder), 64, shuffle=True, num_workers=2, persistent_workers=True)
    forever(Trainer(step_s=0.03), loader)


def decoding_keeps_up(_: Path) -> None:
    forever(Trainer(step_s=0.25), DataLoader(DecodedImages(), 8, num_workers=2, persistent_workers=True))


def rows_keep_up(_: Path) -> None:
    forever(Trainer(step_s=0.2), DataLoader(IlocRows(), 32, num_workers=2, persistent_workers=True))


def tokenising_keeps_up(_: Path) -> None:
    forever(Trainer(step_s=0.1), DataLoader(TokenisedTexts(), 32, num_workers=1, persistent_workers=True))


class Augmented(Rows):
    def random_noise(self, image: np.ndarray) -> np.ndarray:
        return image + np.random.normal(0, 0.1, image.shape)

    def random_flip(self, image: np.ndarray) -> np.ndarray:
        return image[:, ::-1] if np.random.rand() < 0.5 else image

    def __getitem__(self, place: int):
        image = self.random_flip(self.random_noise(self.x[place]))
        return torch.from_numpy(np.fft.fft2(image).real.flatten()[:WIDTH].copy()), 1.0


def augmentation_is_hidden(_: Path) -> None:
    data = Augmented(np.random.rand(500, 160, 160))
    forever(Trainer(step_s=0.3), DataLoader(data, 32, shuffle=True, num_workers=2, persistent_workers=True))


def tokenised_once(_: Path) -> None:
    data = TokenisedTexts()
    rows = [data[place] for place in range(len(data))]
    forever(Trainer(hidden=BUSY), DataLoader(rows, 128, shuffle=True))


def decoded_once(_: Path) -> None:
    data = DecodedImages()
    x = torch.stack([data[place][0] for place in range(len(data))])
    forever(Trainer(hidden=BUSY), DataLoader(TensorDataset(x, torch.ones(len(x))), 50, shuffle=True))


def evaluate(trainer: Trainer, x: torch.Tensor) -> float:
    with torch.no_grad():
        return float(trainer.model(x).mean())


def _epochs(trainer: Trainer, count: int, held_out: torch.Tensor) -> None:
    batches = [(torch.rand(64, WIDTH), torch.rand(64)) for _ in range(count)]
    while True:
        trainer.train_epoch(batches)
        evaluate(trainer, held_out)


def validation_in_memory(_: Path) -> None:
    _epochs(Trainer(step_s=0.01), 20, torch.rand(20_000, WIDTH))


def validation_read_once(folder: Path) -> None:
    path = folder / "validation.csv"
    pd.DataFrame(np.random.rand(20_000, WIDTH)).to_csv(path, index=False)
    _epochs(Trainer(step_s=0.01), 20, torch.tensor(pd.read_csv(path).to_numpy(dtype=np.float32)))


def validate_batches(trainer: Trainer, loader: DataLoader) -> None:
    with torch.no_grad():
        for x, _ in loader:
            trainer.model(x)
            trainer.device.synchronize()


def validation_by_loader(_: Path) -> None:
    trainer, batches = Trainer(step_s=0.03), [(torch.rand(64, WIDTH), torch.rand(64)) for _ in range(40)]
    loader = DataLoader(Rows(torch.rand(600, WIDTH)), 64, num_workers=1, persistent_workers=True)
    while True:
        trainer.train_epoch(batches)
        validate_batches(trainer, loader)


def heavy_model(_: Path) -> None:
    forever(Trainer(hidden=20_000), DataLoader(Rows(torch.rand(2000, WIDTH)), 64, shuffle=True))


def waits_for_the_device(_: Path) -> None:
    forever(Trainer(step_s=0.05), DataLoader(Rows(torch.rand(2000, WIDTH)), 64, shuffle=True))


class Lines(IterableDataset):
    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self):
        with open(self.path) as file:
            for line in file:
                yield torch.tensor(json.loads(line)), 1.0


def stream_of_lines(folder: Path) -> None:
    path = folder / "lines.jsonl"
    path.write_text("\n".join(json.dumps(np.random.rand(WIDTH).tolist()) for _ in range(5000)))
    forever(Trainer(step_s=0.05), DataLoader(Lines(path), 32, num_workers=1, persistent_workers=True))


class Shards(IterableDataset):
    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self):
        with tarfile.open(self.path) as archive:
            for member in archive:
                data = archive.extractfile(member).read()
                yield torch.frombuffer(bytearray(data), dtype=torch.float32), 1.0


def tar_shards(folder: Path) -> None:
    path = folder / "shard.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(2000):
            data = np.random.rand(WIDTH).astype(np.float32).tobytes()
            member = tarfile.TarInfo(f"{number}.bin")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    forever(Trainer(step_s=0.05), DataLoader(Shards(path), 32, num_workers=1, persistent_workers=True))


class WholeBatches(Rows):
    def __getitems__(self, places: list[int]):
        return [(x, 1.0) for x in self.x[places]]


def batches_at_once(_: Path) -> None:
    forever(Trainer(hidden=BUSY), DataLoader(WholeBatches(torch.rand(ROWS, WIDTH)), 256, shuffle=True))


def metrics_in_pandas(_: Path) -> None:
    trainer, batches = Trainer(hidden=BUSY), [(torch.rand(256, WIDTH), torch.rand(256)) for _ in range(30)]
    while True:
        trainer.train_epoch(batches)
        frame = pd.DataFrame({"group": np.random.randint(0, 5, 2000), "loss": np.random.rand(2000)})
        frame.groupby("group")["loss"].mean().to_dict()


def log_of_steps(folder: Path) -> None:
    trainer, batches = Trainer(hidden=BUSY), [(torch.rand(256, WIDTH), torch.rand(256)) for _ in range(10)]
    with open(folder / "log.jsonl", "w") as file:
        while True:
            for x, y in batches:
                file.write(json.dumps({"loss": trainer.train_step(x, y)}) + "\n")


def saves_checkpoints(folder: Path) -> None:
    trainer, batches = Trainer(hidden=BUSY), [(torch.rand(256, WIDTH), torch.rand(256)) for _ in range(50)]
    while True:
        trainer.train_epoch(batches)
        torch.save(trainer.model.state_dict(), folder / "model.pt")


def numpy_alone(_: Path) -> None:
    x, y, weights = np.random.rand(ROWS, 256), np.random.rand(ROWS), np.zeros(256)
    began()
    while True:
        order = np.random.permutation(ROWS)
        for start in range(0, ROWS, 512):
            chosen = order[start : start + 512]
            weights -= 1e-5 * x[chosen].T @ (x[chosen] @ weights - y[chosen])


def thread_that_prefetches(_: Path) -> None:
    trainer, ready = Trainer(step_s=0.03), queue.Queue(8)

    def read() -> None:
        while True:
            ready.put((torch.rand(64, WIDTH), torch.rand(64)))

    threading.Thread(target=read, daemon=True).start()
    while True:
        trainer.train_step(*ready.get())


class Synthetic(Rows):
    def __getitem__(self, place: int):
        random = np.random.default_rng(place)
        return random.random(WIDTH, dtype=np.float32), 1.0


def made_as_needed(_: Path) -> None:
    forever(Trainer(step_s=0.06), DataLoader(Synthetic(range(4000)), 64, num_workers=2, persistent_workers=True))


TRAININGS = (
    tensors_in_memory,
    arrays_in_memory,
    columns_as_arrays,
    memmap_shards,
    lmdb_records,
    decoding_keeps_up,
    rows_keep_up,
    tokenising_keeps_up,
    augmentation_is_hidden,
    tokenised_once,
    decoded_once,
    validation_in_memory,
    validation_read_once,
    validation_by_loader,
    heavy_model,
    waits_for_the_device,
    stream_of_lines,
    tar_shards,
    batches_at_once,
    metrics_in_pandas,
    log_of_steps,
    saves_checkpoints,
    numpy_alone,
    thread_that_prefetches,
    made_as_needed,
)


if __name__ == "__main__":
    run(TRAININGS)
