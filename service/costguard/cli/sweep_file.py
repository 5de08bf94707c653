"""sweep.toml: parameters with their values, and the options of `costguard launch` with `{names}` in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from costguard.cli.job.file import toml_of
from costguard.cli.server import WrongUsage

_TOP = ("name", "at_once", "ceiling", "seeds", "halving", "grid", "list", "launch")
_SHOWN = "`costguard sweep init` prints an example."
EXAMPLE = r"""# sweep.toml
name = "learning rate"
at_once = 4              # members at a time; a member that recovers from a preemption keeps its place
ceiling = 120            # dollars, of all members together
# halving = 3            # stop losers at equal steps; at least the best third goes on

[grid]                   # every combination: six members
lr = [1e-4, 3e-4, 1e-3]
seed = [1, 2]

[launch]                 # the options of `costguard launch`, by their names
preset = "a100"
command = "python train.py --lr {lr} --seed {seed}"
workdir = "."
checkpoint = "s3://lab/sweep/{lr}-{seed}"
local = "/data/out"
resume = "--resume_from_checkpoint {checkpoint}"
output = ["/data/out/model=s3://lab/models/{sweep}/{member}"]
publish-to = "s3://lab/best/{sweep}/{member}"   # the member's best checkpoint
metric = 'val_loss (\S+)'
work = "2h"              # how long each takes: then the quote and the ceiling can be compared
"""


def read(path: Path, may_be_job: bool = False) -> dict[str, Any]:
    """Returns the file's parts; a job's file, where it may be one, is the part `launch`. Raises WrongUsage."""
    parts = toml_of(path, _SHOWN)
    if "preset" in parts:
        if may_be_job:
            return {"launch": parts}
        how = f"Launch it with: costguard launch {path}; or several times with: costguard sweep {path} --seeds 5"
        raise WrongUsage(f"{path} describes one job.", how)
    if unknown := sorted(set(parts) - set(_TOP)):
        raise WrongUsage(f"{path}: {unknown[0]} means nothing here.", f"Known are {', '.join(_TOP)}.")
    if not isinstance(parts.get("launch"), dict):
        raise WrongUsage(f"{path} has no section [launch].", _SHOWN)
    return parts
