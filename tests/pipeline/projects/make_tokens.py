"""Makes a data set of numbers instead of text, in four files: `python make_tokens.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
numbers = numpy.random.default_rng(2)
for number in range(4):
    numpy.save(folder / f"tokens-{number:04}.npy", numbers.integers(0, 1024, (512, 128), dtype="int32"))
