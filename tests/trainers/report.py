"""Shows the killed trainings, as a table for the terminal and as the page `service/docs/trainers.md`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from datetime import date

from tests.trainers.bench_client import PYTHON, ROOT
from tests.trainers.guarded import GuardedRun
from tests.trainers.kills import Tally

PAGE = ROOT / "service" / "docs" / "trainers.md"
_NAMES = ("torch", "transformers", "accelerate", "lightning", "orbax-checkpoint", "jax", "keras", "h5py", "safetensors")
_HEADS = ("Trainer", "Kills", "In a save", "Right", "Nothing to resume from", "Torn passed over", "Wrong")
_ASK = "import sys, json, importlib.metadata as m; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"


def versions(names: Sequence[str] = _NAMES) -> dict[str, str]:
    """Returns the versions installed in the trainers' environment."""
    done = subprocess.run([str(PYTHON), "-c", _ASK, *names], capture_output=True, text=True, check=True)
    versions: dict[str, str] = json.loads(done.stdout)
    return versions


def rows(tallies: Sequence[Tally]) -> list[tuple[str, ...]]:
    """A row a trainer, and the sum."""
    made = [
        (one.kind.title, one.kills, one.in_saves, one.right, one.nothing, one.torn, len(one.wrong)) for one in tallies
    ]
    total = ("All", *(sum(int(row[at]) for row in made) for at in range(1, len(_HEADS))))
    return [tuple(str(cell) for cell in row) for row in (*made, total)]


def table(tallies: Sequence[Tally]) -> str:
    lines = [_HEADS, *rows(tallies)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(_HEADS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def words_on(guarded: GuardedRun) -> str:
    """Describes the script under the guard."""
    resumed = " and ".join(f"step {step}" for step in guarded.resumed_at)
    equal = "equal" if guarded.final == guarded.uninterrupted else "DIFFER FROM"
    torn = f" {len(guarded.torn)} torn checkpoint(s) were passed over." if guarded.torn else ""
    return (
        f"Attempts: {', '.join(guarded.outcomes)}; resumed from {resumed}.{torn} "
        f"The final weights {equal} those of an uninterrupted run."
    )


def page(tallies: Sequence[Tally], guarded: GuardedRun, seed: int, today: date) -> str:
    """Returns the page in Markdown."""
    heads = "| " + " | ".join(_HEADS) + " |"
    rule = "|---|" + "--:|" * (len(_HEADS) - 1)
    lines = ["| " + " | ".join(row) + " |" for row in rows(tallies)]
    with_versions = ", ".join(f"{name} {version}" for name, version in versions().items())
    return "\n".join(
        [
            _HEAD,
            f"Measured on {today:%-d %B %Y} with seed {seed}: {with_versions}, on CPU.",
            "",
            heads,
            rule,
            *lines,
            "",
            _COLUMNS,
            "",
            "## One script under the guard",
            "",
            _SCRIPT,
            words_on(guarded),
            "",
        ]
    )


_HEAD = """# Real trainers, killed

<!-- Written by `make trainers`. -->

Whether a checkpoint is complete is decided by rules that were read out of each framework's source. This is how they
fare against the frameworks themselves: tiny models are trained and killed by SIGKILL at random moments, half of them or
more within a save, and the product's own judge chooses from what is left. Then the framework loads it, newest first.
"""

_COLUMNS = """Right: what the judge chose loads, holds exactly the state that was saved, and no newer one does; or it
chose none, and none loads ("nothing to resume from": a first save, or one file that was just being written over). Torn
passed over: a newer save had been begun under the name that it was to have, and what lies there is not that save.
Lightning and Orbax write under another name and rename, so that they leave nothing torn under a checkpoint's name.

PyTorch comes as its default build, which on Linux brings what GPUs need; no GPU is used."""

_SCRIPT = """`tests/trainers/train_gpt2.py`, an ordinary Trainer script that knows nothing of Costguard, ran as a job in
VMs of the simulated cloud that are real processes. Its VM was taken away twice, each time as a checkpoint was begun."""
