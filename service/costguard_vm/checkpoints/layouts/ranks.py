"""Tells which rank wrote a file, by its name, where the framework's names say it."""

from __future__ import annotations

import re

# torch/distributed/checkpoint/filesystem.py (`__{rank}_{count}.distcp`), transformers/trainer.py
# (`rng_state_{rank}.pth`), accelerate/checkpointing.py (`random_states_{rank}.pkl`), Orbax's `ocdbt.process_{process}`
# and `array_metadatas/process_{process}`; and DeepSpeed's data ranks, which are the ranks where the model is not split.
_RANKS = re.compile(
    r"(?:^|/)(?:__(?P<dcp>[0-9]{1,7})_[0-9]+\.distcp|rng_state_(?P<rng>[0-9]{1,7})\.pth|random_states_(?P<random>[0-9]{1,7})\.pkl"
    r"|(?:ocdbt\.|array_metadatas/)process_(?P<process>[0-9]{1,7})(?:/.*)?"
    r"|[^/]*zero_pp_rank_(?P<data>[0-9]{1,7})_mp_rank_00_(?:model|optim)_states\.pt)$"
)


def rank_of(path: str) -> int | None:
    """The rank whose part this file is; None where it is of no rank alone, or the name does not tell.

    DeepSpeed's names tell it where the model is not split: else its data ranks lie further apart.
    """
    match = _RANKS.search(path)
    return int(next(number for number in match.groups() if number is not None)) if match else None
