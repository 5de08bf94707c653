"""Sets aside what earlier rounds of a gang left on a VM that stays: all nodes begin from one checkpoint.

A VM that took another's place has nothing but that checkpoint. On the others lie parts of newer ones that never became
whole, which a framework that looks for its newest by itself would take, or refuse to write over.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

from costguard_vm.checkpoints.folder import Folder
from costguard_vm.checkpoints.judge import candidates
from costguard_vm.checkpoints.layouts.base import CandidateCheckpoint
from costguard_vm.checkpoints.layouts.megatron import TRACKER
from costguard_vm.checkpoints.uploads import OURS
from costguard_vm.model.checkpoint import LookFor

from .remote import slot_of, step_of

EARLIER = f"{OURS}earlier"
NOTES = ("latest", TRACKER)  # in which frameworks name their newest


def set_aside(path: str, look_for: LookFor, best: CandidateCheckpoint | None) -> None:
    """Moves checkpoints newer than `best` to a folder below `path` that nothing looks into, and what its own folder
    holds beyond it; without `best` all, since the round begins from nothing. What lay there before is deleted.
    """
    shutil.rmtree(os.path.join(path, EARLIER), ignore_errors=True)
    if not os.path.isdir(path):
        return
    folder = Folder(path)
    listing = folder.listing()
    slot = slot_of(best.name) if best is not None else ""
    name = best.name[len(slot) :] if best is not None else ""
    kept = {file.path[len(slot) :] for file in best.files.values()} if best is not None else set()
    newest = step_of(best.step) if best is not None else -2
    for one in candidates(listing, look_for, folder):
        if one.name == name:
            _move(path, [held for held in listing.files if held.startswith(f"{name}/") and held not in kept])
        elif one.name != "." and step_of(one.step) > newest:
            inner = [held for held in listing.files if held.startswith(f"{one.name}/")]
            _move(path, {*inner, *(file.path for file in one.files.values())})
    if best is None:
        _move(path, [note for note in NOTES if note in listing.files])


def _move(path: str, names: Iterable[str]) -> None:
    for name in names:
        source, target = os.path.join(path, name), os.path.join(path, EARLIER, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.replace(source, target)
        above = os.path.dirname(name)
        while above and not os.listdir(os.path.join(path, above)):
            os.rmdir(os.path.join(path, above))
            above = os.path.dirname(above)
