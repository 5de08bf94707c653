"""Trainings killed at random moments: what the product's judge chooses of what they leave, and if that is right."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.trainers.bench_client import Ran, Save, Server, serving

from costguard.checkpoints.buckets import StoreAccess
from costguard.checkpoints.client import StoredCheckpoints
from costguard_vm.model.checkpoint import CheckpointLook, LookFor

_TRIES = 6  # at a kill within a save, which may end before it is hit


@dataclass(frozen=True)
class Kind:
    """A way to train and save. `location` is below the training's folder, as a job would name it."""

    name: str
    module: str
    title: str
    kills: int
    look_for: LookFor = field(default_factory=LookFor)
    location: str = ""


KINDS = (
    Kind("hugging-face", "hugging_face", "Transformers Trainer", 16),
    Kind("lightning", "lightning_fit", "Lightning ModelCheckpoint", 12),
    Kind("torch-dcp", "torch_files", "PyTorch DCP", 10),
    Kind("torch-zip", "torch_files", "torch.save, a file a step", 10, LookFor(pattern="ckpt_{step}.pt")),
    Kind("torch-legacy", "torch_files", "torch.save, legacy format", 10, LookFor(pattern="ckpt_{step}.pt")),
    Kind("torch-overwritten", "torch_files", "torch.save, one file written over", 8, location="checkpoint.pt"),
    Kind("torch-overwritten-legacy", "torch_files", "the same, legacy format", 8, location="checkpoint.pt"),
    Kind("torch-renamed", "torch_files", "torch.save, one file renamed into place", 6, location="checkpoint.pt"),
    Kind("orbax", "orbax_manager", "Orbax CheckpointManager", 12),
    Kind("keras-backup", "keras_fit", "Keras BackupAndRestore", 10),
    Kind("keras-two-backups", "keras_fit", "Keras BackupAndRestore, double", 12),
    Kind("keras-models", "keras_fit", "Keras ModelCheckpoint", 8, LookFor(pattern="model_{step}.keras")),
)


@dataclass
class Tally:
    """The results of the kills of one kind. `wrong` says what was chosen, and what should have been."""

    kind: Kind
    kills: int = 0
    in_saves: int = 0
    right: int = 0
    torn: int = 0
    nothing: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Usual:
    """The course of an undisturbed training: where its work lies, and how long a save takes. Seconds from its start."""

    first: float
    last: float
    save: float
    saves: int


def killed(kinds: tuple[Kind, ...], folder: Path, seed: int, say: Callable[[str], None]) -> Iterator[Tally]:
    """Yields one tally a kind. Each module is imported once."""
    for module in dict.fromkeys(kind.module for kind in kinds):
        with serving(module, folder) as server:
            for kind in (kind for kind in kinds if kind.module == module):
                yield _killed(kind, server, folder, Random(f"{seed} {kind.name}"), say)


def _killed(kind: Kind, server: Server, folder: Path, lot: Random, say: Callable[[str], None]) -> Tally:
    usual = _usual(kind, server, folder)
    tally = Tally(kind)
    for number in range(kind.kills):
        home = folder / f"{kind.name}-{number}"
        ran = _kill(kind, server, home, lot, usual, within=number % 2 == 0)
        tally.kills += 1
        tally.in_saves += bool(ran.saves) and not ran.saves[-1].is_done
        _judge(kind, server, home, ran, tally)
        _forget(folder, home)
    say(f"{kind.title}: {tally.kills} kills, {tally.in_saves} of them in a save, {len(tally.wrong)} wrong")
    return tally


def _usual(kind: Kind, server: Server, folder: Path) -> Usual:
    """Twice, because the first one also fills caches."""
    for _ in range(2):
        home = folder / f"{kind.name}-usual"
        ran = server.train(kind.name, _made(home))
        _forget(folder, home)
        if not ran.is_done:
            raise RuntimeError(f"{kind.name} does not train: {ran.error}")
    lasted = [end - begin for begin, end in zip(ran.begins, ran.ends, strict=True)]
    return Usual(ran.begins[0], ran.ends[-1], statistics.median(lasted), len(lasted))


def _kill(kind: Kind, server: Server, home: Path, lot: Random, usual: Usual, within: bool) -> Ran:
    """Kills within a save, or at any moment from the first one on. A training that was over sooner is begun again."""
    for attempt in range(_TRIES):
        if within:
            number = lot.choice([0, *range(1, usual.saves)])  # seldom the first, before which there is nothing
            moment = (number, lot.random() * usual.save)
            ran = server.train(kind.name, _made(home), in_save=moment)
        else:
            after = usual.first + lot.random() * (usual.last - usual.first)
            ran = server.train(kind.name, _made(home), kill_at=after * 0.8**attempt)
        if ran.code == -9 and (not within or not ran.saves[-1].is_done):
            return ran
    if ran.code != -9:
        raise RuntimeError(f"{kind.name} could not be killed in {_TRIES} tries: {ran.error}")
    return ran


def _judge(kind: Kind, server: Server, home: Path, ran: Ran, tally: Tally) -> None:
    """Right is: what is chosen loads as it was saved, and no newer one does; or none is chosen, and none loads."""
    look = StoredCheckpoints(StoreAccess()).look(str(home / kind.location), kind.look_for)
    chosen = look.resume.resume_from if look.resume is not None else None
    newest, passed = _truth(kind, server, ran)
    tally.torn += passed
    if chosen is None and newest is None:
        tally.right += 1
        tally.nothing += 1
        return
    digest, error = server.load(kind.name, Path(chosen)) if chosen is not None else ("", "none was chosen")
    if newest is not None and digest == newest.digest:
        tally.right += 1
        return
    kept = home.with_name(f"wrong-{home.name}")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(home, kept)
    expected = f"step {newest.step} at {newest.path.name} loads" if newest is not None else "none loads"
    tally.wrong.append(f"{kept.name}: chose {chosen} ({error or digest}); {expected}. {_reasons(look)}")


def _truth(kind: Kind, server: Server, ran: Ran) -> tuple[Save | None, bool]:
    """The newest save that the framework loads as it was saved, and whether a newer one lies there that it does not."""
    passed = False
    digests: dict[Path, str] = {}
    for save in reversed(ran.saves):
        if not save.path.exists():
            continue
        if save.path not in digests:
            digests[save.path] = server.load(kind.name, save.path)[0]
        if digests[save.path] == save.digest:
            return save, passed
        passed = True
    return None, passed


def _reasons(look: CheckpointLook) -> str:
    return "; ".join(f"{one.name} {one.state.value}: {' '.join(one.reasons)}" for one in look.checkpoints)


def _made(home: Path) -> Path:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    return home


def _forget(folder: Path, home: Path) -> None:
    """Forgets also what loading left next to it."""
    for leftover in folder.glob(f"{home.name}*"):
        shutil.rmtree(leftover, ignore_errors=True)
