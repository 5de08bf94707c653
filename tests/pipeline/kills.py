"""VMs that lose their power at random moments of a job's way: download, setup, training, upload, publishing.

Each life is a new VM, with a disk of its own and the real agent; all its processes end by SIGKILL at once. After each,
the bucket is read with obstore, as another VM or a reader would, and every byte is compared with what was saved.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.agent.fake_guard import guard_at_a_port
from tests.agent.fake_metadata import metadata_server
from tests.agent.s3_server import rclone_path
from tests.agent.vm import Vm
from tests.pipeline.object_store import KEY, KEY_ID, REGION, ObjectStore, object_store

from costguard.checkpoints.buckets import StoreAccess
from costguard.checkpoints.client import StoredCheckpoints
from costguard_vm.bundle import bundle
from costguard_vm.model.checkpoint import Framework, LookFor

BUCKET = "kills"
LOOK_FOR = LookFor(Framework.MARKER, marker="DONE")
LAST_STEP = 6
_KILLS_OF_A_JOB = 8  # then one VM is left alone, and the job ends
_LONGEST_S = 300.0
_SIZES = {"weights.bin": 400_000, "optimizer.bin": 700_000, "config.json": 300}
_TRAIN = f"""
import hashlib, pathlib, sys, time
def content(kind, step, name, size):
    seed = hashlib.sha256(f"{{kind}} {{step}} {{name}}".encode()).digest()
    return (seed * (size // 32 + 1))[:size]
out, model, data = map(pathlib.Path, sys.argv[1:4])
assert (data / "tokens.bin").read_bytes() == content("data", 0, "tokens.bin", 900_000)
assert pathlib.Path("prepared").exists()
first = int(pathlib.Path(sys.argv[5], "step").read_text()) if len(sys.argv) > 4 else 0
for step in range(first + 1, {LAST_STEP} + 1):
    time.sleep(0.15)
    place = out / f"step-{{step}}"
    place.mkdir(parents=True, exist_ok=True)
    for name, size in {_SIZES!r}.items():
        (place / name).write_bytes(content("checkpoint", step, name, size))
    (place / "step").write_text(str(step))
    (place / "DONE").touch()
    print("step", step, flush=True)
model.mkdir(parents=True, exist_ok=True)
for name, size in {_SIZES!r}.items():
    (model / name).write_bytes(content("model", 0, name, size))
"""


@dataclass
class Kills:
    """The results of kills.

    `harm` says what was wrong after which kill, and `again` what was uploaded a second time.
    """

    kills: int = 0
    jobs: int = 0
    at: dict[str, int] = field(default_factory=dict)  # the last thing that the agent had said
    torn: int = 0
    half: int = 0
    harm: list[str] = field(default_factory=list)


def content(kind: str, step: int, name: str, size: int) -> bytes:
    """Returns what the training writes, known without it."""
    seed = hashlib.sha256(f"{kind} {step} {name}".encode()).digest()
    return (seed * (size // 32 + 1))[:size]


def run_all(folder: Path, seed: int, count: int = 200) -> Kills:
    """Jobs one after the other, until so many VMs were killed. Each job ends in the end, with its model published."""
    lot, result = Random(seed), Kills()
    with object_store(folder) as store, _agent() as agent:
        store.make(BUCKET)
        data = folder / "kill-data"
        data.mkdir()
        (data / "tokens.bin").write_bytes(content("data", 0, "tokens.bin", 900_000))
        store.put(BUCKET, data, "data")
        longest = _life(folder / "measured", agent, store, "measured", 1, None, Kills())
        while result.kills < count:
            result.jobs += 1
            _job(folder, agent, store, result, lot, longest, count)
    return result


def _job(folder: Path, agent: Path, store: ObjectStore, result: Kills, lot: Random, longest: float, count: int) -> None:
    job = f"job-{result.jobs}"
    killed = 0
    for number in range(1, _KILLS_OF_A_JOB + 2):
        is_last = killed == _KILLS_OF_A_JOB or result.kills >= count
        before = _checked(store, job, result)
        store.requests.clear()
        after = None if is_last else lot.random() * longest
        home = folder / f"{job}-{number}"
        _life(home, agent, store, job, number, after, result)
        killed += not is_last
        result.kills += not is_last
        again = [one.path for one in store.requests if one.is_upload and one.status < 300 and _is_of(one.path, before)]
        result.harm += [f"{home.name}: {path} was uploaded again, and it was complete" for path in again]
        if _is_published(store, job, result):
            break
        if is_last:
            result.harm.append(f"{home.name}: a VM that was left alone published nothing")
    _checked(store, job, result)


def _life(
    home: Path, agent: Path, store: ObjectStore, job: str, number: int, after: float | None, result: Kills
) -> float:
    """Lives one VM, until it was killed so many seconds after its start, or has ended. Returns how long it took."""
    home.mkdir()
    with metadata_server() as metadata, guard_at_a_port() as (guard, listener):
        listener.listen()
        vm = Vm(home, agent, metadata, guard)
        (vm.tools / "rclone").symlink_to(rclone_path())
        location = f"s3://{BUCKET}/{job}/run"
        checkpoint = {
            "location": location,
            "local": f"{home}/out",
            "framework": "marker",
            "marker": "DONE",
            "keep": "2",
        }
        look = StoredCheckpoints(access(store)).look(location, LOOK_FOR)
        if look.resume is not None:
            checkpoint |= {"resume_from": look.resume.resume_from, "step": str(look.resume.step)}
        vm.order(
            *(sys.executable, "-u", "-c", _TRAIN, f"{home}/out", f"{home}/model", f"{home}/data"),
            attempt=f"cg-{job}-{number}",
            job=job,
            checkpoint=checkpoint,
            resume_arguments=["--from", "{checkpoint}"],
            inputs={f"{home}/data": f"s3://{BUCKET}/data"},
            outputs={f"s3://{BUCKET}/{job}/model": f"{home}/model"},
            setup="sleep 0.2; touch prepared",
            environment=store.variables(),
            look_s=0.1,
        )
        began = time.monotonic()
        process = vm.boot()
        pause = threading.Event()
        latest = began + (_LONGEST_S if after is None else after)
        while process.poll() is None and time.monotonic() < latest:
            pause.wait(0.01)
        if process.poll() is None:
            cut_power(process.pid)
            process.wait(_LONGEST_S)
        if after is not None:
            last = _last_said(guard.events)
            result.at[last] = result.at.get(last, 0) + 1
        ends = [event for event in guard.events if event["kind"] == "exit"]
        if after is None and not (ends and ends[0]["reason"] == "exited" and ends[0]["code"] == 0):
            result.harm.append(f"{home.name}: it did not succeed: {ends}")
    shutil.rmtree(home, ignore_errors=True)
    return time.monotonic() - began


def _last_said(events: Sequence[Mapping[str, Any]]) -> str:
    """Returns the agent's phase, as it reported last."""
    if not events:
        return "nothing"
    kinds = [event["kind"] for event in events]
    phase = str(events[-1].get("phase") or "")
    return phase or ("the end" if "exit" in kinds else "training" if "start" in kinds else "boot")


def cut_power(pid: int) -> None:
    """Ends a process and all below it: they are stopped first, so that none begins another one meanwhile."""
    pids = {pid}
    while True:
        for one in pids:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGSTOP)
        more = {child for child, parent in _parents() if parent in pids} - pids
        if not more:
            break
        pids |= more
    for one in pids:
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def _parents() -> Iterator[tuple[int, int]]:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):
                status = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                yield int(name), int(status[1])


def access(store: ObjectStore) -> StoreAccess:
    variables = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": KEY}
    return StoreAccess(s3_endpoint=store.direct, s3_region=REGION, environ=variables)


def _checked(store: ObjectStore, job: str, result: Kills) -> set[str]:
    """The complete checkpoints by name, after the newest was read and compared byte by byte."""
    look = StoredCheckpoints(access(store)).look(f"s3://{BUCKET}/{job}/run", LOOK_FOR, examine=100)
    result.torn += len(look.passed_over)
    if look.resume is None:
        return set()
    name = look.resume.resume_from.removeprefix(f"s3://{BUCKET}/{job}/run/")
    step = look.resume.step or 0
    for file, size in _SIZES.items():
        if _read(store, f"{job}/run/{name}/{file}") != content("checkpoint", step, file, size):
            result.harm.append(f"{job}: {name} was taken for complete, and its {file} is not what was saved")
    return {f"/{BUCKET}/{job}/run/{name}/"}


def _is_of(path: str, checkpoints: set[str]) -> bool:
    return any(path.startswith(one) for one in checkpoints)


def _is_published(store: ObjectStore, job: str, result: Kills) -> bool:
    """Says whether its mark is there; then all of it must be there, byte by byte, and nothing of the way there."""
    names = store.names(BUCKET, f"{job}/model")
    if f"{job}/model/_SUCCESS" not in names:
        result.half += bool(names)
        return False
    for file, size in _SIZES.items():
        if _read(store, f"{job}/model/{file}") != content("model", 0, file, size):
            result.harm.append(f"{job}: it is published, and its {file} is not what the command left")
    return True


def _read(store: ObjectStore, name: str) -> bytes:
    try:
        return store.read(BUCKET, name)
    except FileNotFoundError:
        return b""


@contextmanager
def _agent() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.pyz"
        path.write_bytes(bundle())
        yield path
