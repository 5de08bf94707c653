"""Trains a few weights on several processes over sockets: standard library only, one file, equal to the last bit.

Rank 0 listens at MASTER_ADDR and MASTER_PORT, adds the others' gradients in the order of their ranks, and sends the sum
to all. Each rank saves its own part of the weights and of their momentum; DONE is written once every part is.
`RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29400 python3 train_plain.py --out FOLDER --steps 40`, and
`--from FOLDER/step-20` resumes. Without these variables it trains alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

EACH = 4  # weights of each rank
RATE, KEPT = 0.05, 0.9
_JOIN_S = 60.0

State = dict[str, Any]  # JSON: {"step", "weights", "momentum"}


def beginning(ranks: int) -> State:
    count = EACH * ranks
    return {"step": 0, "weights": [math.sin(1.0 + place) for place in range(count)], "momentum": [0.0] * count}


def gradient(weights: Sequence[float], step: int, rank: int) -> list[float]:
    """Returns what the rank's batch of this step says; each weight depends on its neighbour."""
    shifted = [*weights[1:], weights[0]]
    return [
        math.tanh(own - math.cos(step * 0.37 + rank + place) * other)
        for place, (own, other) in enumerate(zip(weights, shifted, strict=True))
    ]


def added(gradients: Sequence[Sequence[float]]) -> list[float]:
    """Returns their sum, in the order of the ranks: another order gives other last digits."""
    total = [0.0] * len(gradients[0])
    for one in gradients:
        total = [sum_ + own for sum_, own in zip(total, one, strict=True)]
    return total


def moved(state: State, total: Sequence[float]) -> State:
    """Returns the state after a step."""
    momentum = [KEPT * old + new for old, new in zip(state["momentum"], total, strict=True)]
    weights = [old - RATE * new for old, new in zip(state["weights"], momentum, strict=True)]
    return {"step": state["step"] + 1, "weights": weights, "momentum": momentum}


def digest(state: State) -> str:
    return hashlib.sha256(json.dumps(state["weights"]).encode()).hexdigest()


def undisturbed(ranks: int, steps: int) -> str:
    """Returns the digest of a training that nobody disturbs."""
    state = beginning(ranks)
    for step in range(1, steps + 1):
        state = moved(state, added([gradient(state["weights"], step, rank) for rank in range(ranks)]))
    return digest(state)


def save_part(state: State, place: Path, rank: int) -> None:
    """Writes this rank's part, in two halves, as a large one is written."""
    place.mkdir(parents=True, exist_ok=True)
    mine = slice(EACH * rank, EACH * (rank + 1))
    part = {"step": state["step"], "weights": state["weights"][mine], "momentum": state["momentum"][mine]}
    text = json.dumps(part)
    with (place / f"part-{rank}.json").open("w") as file:
        file.write(text[: len(text) // 2])
        file.flush()
        threading.Event().wait(0.005)
        file.write(text[len(text) // 2 :])


def load(place: Path, ranks: int) -> State:
    """Raises ValueError where a part is torn, or of another step."""
    parts = [json.loads((place / f"part-{rank}.json").read_text()) for rank in range(ranks)]
    if len({part["step"] for part in parts}) != 1:
        raise ValueError(f"the parts of {place} are of several steps")
    state = {name: [value for part in parts for value in part[name]] for name in ("weights", "momentum")}
    return {"step": parts[0]["step"], **state}


class Ranks:
    """The connections of this rank: rank 0 has one to each other rank, and these have one to rank 0."""

    def __init__(self, rank: int, ranks: int, address: str, port: int, word: str, patience_s: float) -> None:
        self._rank, self._ranks, self._word = rank, ranks, word
        ends = time.monotonic() + _JOIN_S
        if rank == 0:
            with socket.create_server((address, port)) as listener:
                listener.settimeout(_JOIN_S)
                self._lines = self._joined(listener, patience_s)
        else:
            self._lines = {0: _connected(address, port, ends, patience_s)}
            self._say(0, {"rank": rank, "word": word})

    def _joined(self, listener: socket.socket, patience_s: float) -> dict[int, Any]:
        lines: dict[int, Any] = {}
        while len(lines) < self._ranks - 1:
            connection, _ = listener.accept()
            connection.settimeout(patience_s)
            stream = connection.makefile("rwb")
            hello = _read(stream)
            if hello["word"] != self._word:  # of another round, or of another job
                raise ConnectionError(f"rank {hello['rank']} is of another round")
            lines[hello["rank"]] = stream
        return lines

    def sum(self, gradients: Mapping[int, list[float]]) -> list[float]:
        """Returns the sum of all ranks' gradients, in the order of their shards. Raises ConnectionError where another
        rank is gone.
        """
        if self._rank:
            self._say(0, list(gradients.items()))
            total: list[float] = _read(self._lines[0])
            return total
        every = dict(gradients)
        for rank in range(1, self._ranks):
            every.update(_read(self._lines[rank]))
        total = added([every[shard] for shard in sorted(every)])
        for rank in range(1, self._ranks):
            self._say(rank, total)
        return total

    def meet(self) -> None:
        """Returns once all ranks are here."""
        self.sum({self._rank: [0.0]})

    def _say(self, rank: int, what: object) -> None:
        self._lines[rank].write(json.dumps(what).encode() + b"\n")
        self._lines[rank].flush()


def _connected(address: str, port: int, ends: float, patience_s: float) -> Any:
    while True:
        try:
            connection = socket.create_connection((address, port), 5)
            connection.settimeout(patience_s)
            return connection.makefile("rwb")
        except ConnectionRefusedError:
            if time.monotonic() > ends:
                raise
            threading.Event().wait(0.02)


def _read(stream: Any) -> Any:
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise ConnectionResetError("Connection closed by peer")
    return json.loads(line)


def main() -> None:
    """Writes the digest of its weights as `final-NODE`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--from", dest="begun", type=Path)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--step-seconds", type=float, default=0.05, help="how long a step takes at least")
    parser.add_argument(
        "--patience", type=float, default=20.0, help="seconds until a rank that is silent counts as gone"
    )
    parser.add_argument("--last-after", type=Path, help="a file without which the last step does not begin")
    parser.add_argument("--shards", type=int, default=0, help="of the model, over any ranks; default: one for each")
    given = parser.parse_args()
    own = os.environ
    rank, ranks = int(own.get("RANK", "0")), int(own.get("WORLD_SIZE", "1"))
    word, address = own.get("COSTGUARD_GANG_SECRET", ""), own.get("MASTER_ADDR", "127.0.0.1")
    port = int(own.get("MASTER_PORT", "0"))
    others = Ranks(rank, ranks, address, port, word, given.patience)
    shards = given.shards or ranks
    mine = range(rank, shards, ranks)
    state = load(given.begun, shards) if given.begun else beginning(shards)
    print(f"from step {state['step']}", flush=True)
    while state["step"] < given.steps:
        while rank == 0 and state["step"] == given.steps - 1 and given.last_after and not given.last_after.exists():
            threading.Event().wait(0.05)
        step = state["step"] + 1
        state = moved(state, others.sum({shard: gradient(state["weights"], step, shard) for shard in mine}))
        print(f"step {step}/{given.steps}", flush=True)
        is_hurried = given.shards and given.last_after is not None and given.last_after.exists()
        threading.Event().wait(0 if is_hurried else given.step_seconds)
        if step % given.every == 0:
            place = given.out / f"step-{step}"
            for shard in mine:
                save_part(state, place, shard)
            others.meet()
            if rank == 0:
                (place / "DONE").write_text("")
    (given.out / f"final-{rank}").write_text(digest(state))
    others.meet()


if __name__ == "__main__":
    main()
