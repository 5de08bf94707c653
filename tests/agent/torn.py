"""A bucket held in memory that remembers every moment, and each layout's checkpoints as the agent uploads them."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from tests.checkpoints import writers
from tests.checkpoints.places import Memory, Written, below
from tests.checkpoints.writers import LAYOUTS, dcp_metadata, safetensors, torch_zip

from costguard_vm.agent.transfers.remote import RemoteCheckpoints, Upload, planned
from costguard_vm.agent.transfers.transfer import Only, Progress, Transfer, TransferProgress
from costguard_vm.checkpoints.judge import candidates
from costguard_vm.checkpoints.layouts.base import CandidateCheckpoint
from costguard_vm.checkpoints.uploads import OURS, SLOTS
from costguard_vm.model.checkpoint import CheckpointLook, Framework, LookFor, StoredFile

WHERE = "s3://lab/run"
DCP = {"__0_0.distcp": bytes(40), "__1_0.distcp": bytes(24)}
WHOLE_DCP = {**DCP, ".metadata": dcp_metadata({name: len(body) for name, body in DCP.items()})}
SHARED = {"scheduler.pt": torch_zip(), "rng_state.pth": torch_zip()}
RANKS = {"mp_rank_00_model_states.pt": torch_zip(), "zero_pp_rank_0_mp_rank_00_optim_states.pt": torch_zip()}


def _state(step: int) -> dict[str, bytes]:
    return {**SHARED, "trainer_state.json": b'{"global_step": %d}' % step}


def _fsdp(step: int) -> list[Written]:
    folders = {**dict(below("pytorch_model_fsdp_0", WHOLE_DCP)), **dict(below("optimizer_0", WHOLE_DCP))}
    return below(f"checkpoint-{step}", {**folders, **_state(step)})


def _trainer_with_deepspeed(step: int) -> list[Written]:
    ranks = {**dict(below(f"global_step{step}", RANKS)), "latest": b"global_step%d" % step}
    return below(f"checkpoint-{step}", {**ranks, **_state(step)})


def _adapter(step: int) -> list[Written]:
    return below(
        f"checkpoint-{step}",
        {"adapter_model.safetensors": safetensors(), "optimizer.pt": torch_zip(), **_state(step)},
    )


def _megatron_dcp(step: int) -> list[Written]:
    files = {**WHOLE_DCP, "common.pt": torch_zip(), "metadata.json": b"{}"}
    return [*below(f"iter_{step:07d}", files), ("latest_checkpointed_iteration.txt", b"%d" % step)]


def _orbax_off_google(step: int) -> list[Written]:
    done = b'{"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2}'
    kept = [(path, body) for path, body in writers.orbax(step) if not path.endswith(("success.txt", "_METADATA"))]
    return [*kept, (f"{step}/_CHECKPOINT_METADATA", done)]


def _orbax_of_old(step: int) -> list[Written]:
    return [(path, body) for path, body in writers.orbax(step) if not path.endswith(("success.txt", "T_METADATA"))]


def _lightning_folder(step: int) -> list[Written]:
    return below(f"epoch=0-step={step}.ckpt", {**WHOLE_DCP, "meta.pt": torch_zip()})


def _lightning_with_deepspeed(step: int) -> list[Written]:
    return below(f"epoch=0-step={step}.ckpt", {**dict(below("checkpoint", RANKS)), "latest": b"checkpoint"})


def _marked_outside(step: int) -> list[Written]:
    return [*below(f"it{step}", {"a": b"a", "b": b"b", "c/d": b"d"}), (f"it{step}.done", b"")]


def _one_marked_outside(step: int) -> list[Written]:
    return [(f"it{step}.pkl", b"a"), (f"it{step}.done", b"")]


@dataclass(frozen=True)
class Kind:
    """`is_mute`: nothing in the layout tells that it is whole, so that only our own note does."""

    write: Callable[[int], list[Written]]
    look_for: LookFor = field(default_factory=LookFor)
    is_mute: bool = False
    scheme: str = "s3"  # of other tools' look; on Google Cloud Storage Orbax writes another last file


KINDS: dict[str, Kind] = {
    **{
        one.value: Kind(layout.write, layout.look_for, scheme="gs" if one is Framework.ORBAX else "s3")
        for one, layout in LAYOUTS.items()
        if one is not Framework.KERAS  # each of its checkpoints has the same name
    },
    "FSDP": Kind(_fsdp),
    "Trainer with DeepSpeed": Kind(_trainer_with_deepspeed),
    "adapter": Kind(_adapter),
    "Megatron's distributed format": Kind(_megatron_dcp),
    "Orbax off Google": Kind(_orbax_off_google),
    "old Orbax off Google": Kind(_orbax_of_old, is_mute=True),
    "Lightning's folder": Kind(_lightning_folder),
    "Lightning with DeepSpeed": Kind(_lightning_with_deepspeed),
    "marked outside": Kind(_marked_outside, LookFor(pattern="it{step}", marker="it{step}.done")),
    "file marked outside": Kind(_one_marked_outside, LookFor(pattern="it{step}.pkl", marker="it{step}.done")),
}


def _as_itself(written: list[Written]) -> list[Written]:
    return [(path.partition("/")[2], body) for path, body in written]


def _same(write: Callable[[int], list[Written]], _: int) -> list[Written]:
    return write(100)


def _real_keras(step: int) -> list[Written]:
    weights = gzip.decompress((Path(writers.__file__).parent / "real/whole.weights.h5.gz").read_bytes())
    return [("latest.weights.h5", weights), ("training_metadata.json", b'{"epoch": %d, "batch": 0}' % step)]


# Those whose name stays the same from one to the next.
SAME_NAME: dict[str, Kind] = {
    **{name: replace(kind, write=partial(_same, kind.write)) for name, kind in KINDS.items()},
    "keras": Kind(LAYOUTS[Framework.KERAS].write),
    "Keras's own": Kind(_real_keras),
    "the location itself": Kind(lambda _: _as_itself(writers.torch_dcp(100))),
}


@dataclass(frozen=True)
class Stored:
    """Bytes, and the number of the upload that they came with: equal bytes of two uploads still differ."""

    body: bytes
    version: int


Moment = dict[str, Stored]


class Bucket(Transfer):
    """Stands in for rclone: each call's files in an order of its own, and every moment kept."""

    def __init__(self, seed: int, files: Moment | None = None) -> None:
        self._random = random.Random(seed)
        self.files: Moment = dict(files or {})
        self.moments: list[Moment] = [dict(self.files)]
        self.local: dict[str, bytes] = {}
        self.version = 0

    def listing(self, uri: str) -> dict[str, StoredFile]:
        assert uri == WHERE
        return dict(_memory(self.files).listing.files)

    def read(self, uri: str, start: int, length: int) -> bytes:
        return self.files[_below(uri)].body[start : start + length]

    def write(self, uri: str, content: bytes) -> None:
        self._put(_below(uri), content)

    def delete(self, uri: str, only: Only = None) -> None:
        assert only is not None
        for path in self._shuffled([path for path in (_joined(uri, name) for name in only) if path in self.files]):
            del self.files[path]
            self.moments.append(dict(self.files))

    def upload(self, path: str, uri: str, progress: Progress = lambda _: None, only: Only = None) -> TransferProgress:
        assert only is not None
        for name in self._shuffled(only):
            self._put(_joined(uri, name), self.local[name])
        return TransferProgress()

    def _put(self, path: str, body: bytes) -> None:
        self.files.pop(path, None)
        self.files[path] = Stored(body, self.version)
        self.moments.append(dict(self.files))

    def _shuffled(self, names: Sequence[str]) -> list[str]:
        return self._random.sample(list(names), len(names))


def _below(uri: str) -> str:
    assert uri.startswith(WHERE)
    return uri.removeprefix(WHERE).removeprefix("/")


def _joined(uri: str, name: str) -> str:
    return _below(f"{uri}/{name}")


def _memory(moment: Moment, scheme: str = "s3") -> Memory:
    return Memory([(path, stored.body) for path, stored in moment.items()], WHERE.replace("s3", scheme))


class Agent:
    """The work of a run's agent with the checkpoints of its folder."""

    def __init__(self, kind: Kind, bucket: Bucket, keep: int = 0) -> None:
        self.kind, self.bucket = kind, bucket
        self.remote = RemoteCheckpoints(WHERE, kind.look_for, keep)
        self.remote.read_in(bucket)
        self.remote.clean(bucket)

    def save(
        self, step: int, version: int = 0, more: Sequence[Written] = (), is_unchanged: Callable[[], bool] = lambda: True
    ) -> None:
        """`more` is saved with it."""
        written = [*more, *self.kind.write(step)]
        self.bucket.local, self.bucket.version = dict(written), version or step
        upload = upload_of(written, self.kind.look_for)
        self.remote.upload(self.bucket, upload, "/data", is_unchanged, lambda _: None)
        self.remote.trim(self.bucket)


def upload_of(written: list[Written], look_for: LookFor) -> Upload:
    memory = Memory(written, "/data/it")
    (one,) = candidates(memory.listing, look_for, memory)
    upload = planned(one, memory.listing, look_for)
    assert upload is not None
    return upload


def look_at(moment: Moment, look_for: LookFor) -> CheckpointLook:
    return _memory(moment).look(look_for, examine=100)


def without_notes(moment: Moment) -> Moment:
    """Returns the view of a tool that knows nothing of our notes; it looks at one folder, and not at our slots."""
    return {path: stored for path, stored in moment.items() if not path.startswith(OURS)}


def torn(moment: Moment, kind: Kind, scheme: str = "s3") -> Iterator[str]:
    """Each that is called complete although files of it lack, or are of different uploads."""
    memory = _memory(moment, scheme)
    held = {one.name: one for one in candidates(memory.listing, kind.look_for, memory)}
    for one in memory.look(kind.look_for, examine=100).checkpoints:
        if one.is_complete and (why := _why_torn(held[one.name], moment, kind)):
            yield f"{one.name}: {why}"


def newest_version(moment: Moment, kind: Kind) -> int:
    """Returns the version of the upload that work would resume from."""
    best = look_at(moment, kind.look_for).resume
    assert best is not None
    slot = _slot(best.name)
    return max(moment[slot + path].version for path in _paths(kind, best.step))


def _why_torn(one: CandidateCheckpoint, moment: Moment, kind: Kind) -> str:
    slot = _slot(one.name)
    paths = [slot + path for path in _paths(kind, one.step)]
    absent = [path for path in paths if path not in moment]
    if absent:
        return f"{absent} absent"
    versions = {moment[path].version for path in paths}
    return f"of uploads {sorted(versions)}" if len(versions) > 1 else ""


def _slot(name: str) -> str:
    return "/".join(name.split("/")[:3]) + "/" if name.startswith(SLOTS) else ""


@cache
def _paths(kind: Kind, step: int | None) -> list[str]:
    """All that belongs to it."""
    return [file.path for file in upload_of(kind.write(step or 0), kind.look_for).candidate.files.values()]
