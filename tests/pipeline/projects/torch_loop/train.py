"""An ordinary training script: a plain PyTorch loop that saves with torch.save. It handles no signal."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy
import torch

LATE_S = 0.3  # of each batch: storage that answers late, so that no machine is done before its first checkpoint travels


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--save-every", type=int, default=15)
    parser.add_argument("--resume")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(7)
    layer = torch.nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    model = torch.nn.Sequential(
        torch.nn.Embedding(1024, 128), torch.nn.TransformerEncoder(layer, 4), torch.nn.Linear(128, 1024)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    rows = numpy.concatenate([numpy.load(path) for path in sorted(given.data.glob("tokens-*.npy"))])
    tokens, first = torch.from_numpy(rows).long(), 0
    if given.resume:
        saved = torch.load(given.resume, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["rng"])
        first = saved["step"]
    given.out.mkdir(parents=True, exist_ok=True)
    for step in range(first + 1, given.steps + 1):
        time.sleep(LATE_S)  # noqa: TID251 - as above
        batch = tokens[torch.randint(len(tokens), (8,))]
        loss = torch.nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step % given.save_every == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save({**state, "rng": torch.get_rng_state()}, given.out / f"ckpt_{step}.pt")
    given.model.parent.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), given.model)


main()
