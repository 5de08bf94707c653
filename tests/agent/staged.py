"""A source, a data stage, and VMs that fetch the one by way of the other."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.agent.counting_proxy import CountingProxy, counting_proxy
from tests.agent.fake_guard import FakeGuard
from tests.agent.published import fill
from tests.agent.s3_server import KEY, SECRET, S3Server, rclone_path
from tests.agent.test_transfer import NOWHERE

from costguard_vm.agent.settings import AttemptSettings, Unwanted
from costguard_vm.agent.transfers.inputs import fetch_inputs
from costguard_vm.agent.transfers.phases import Phases
from costguard_vm.agent.transfers.preparation import CommandSecrets, Stage, StageCalls, StageFolders
from costguard_vm.agent.transfers.tool import ToolFinder
from costguard_vm.agent.transfers.transfer import Wait

SIZE = 400_000  # bytes of each object
FRESH = "--dir-cache-time=0s"  # files come into its folder behind its back
BATCH = 2 * SIZE  # of tests that are about batches: each takes six calls of rclone
FILES = {f"part-{n}": random.Random(n).randbytes(SIZE) for n in range(8)} | {"deep/small 1": b"small", "empty": b""}
K = sum(map(len, FILES.values()))


class ServedTool(ToolFinder):
    """The rclone of the locked requirements, without a search."""

    def path(self, wait: Wait) -> str:
        return rclone_path()


class StagedGround:
    """A source, a stage, a guard, and VMs with disks of their own. `batch_bytes` are staged together."""

    def __init__(self, folder: Path, s3: S3Server, proxy: CountingProxy, guard: FakeGuard) -> None:
        self.folder, self.s3, self.proxy, self.guard = folder, s3, proxy, guard
        self.bucket = folder / "stage"
        self.batch_bytes = K
        self.source = f"s3://acme/{folder.name}/v7"
        self.path = s3.folder / "acme" / folder.name / "v7"
        self.path.mkdir(parents=True)
        fill(self.path, FILES)

    def vm(self, name: str, wait: Wait = lambda _: None, secret: str = SECRET, **more: object) -> Stage:
        """A new VM on which nothing is yet; or the same again, with its disk."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        data = str(folder / "data")
        given = {
            "attempt": name,
            "guard": self.guard.url,
            "environment": {
                "AWS_ACCESS_KEY_ID": KEY,
                "AWS_SECRET_ACCESS_KEY": secret,
                "AWS_ENDPOINT_URL_S3": self.proxy.url,
            },
            "inputs": {data: self.source},
            "stages": {data: self.bucket.as_uri()},
            "stage_poll_s": 0.05,
            "stage_batch_bytes": self.batch_bytes,
            "retry_s": 0.01,
            **more,
        }
        settings = AttemptSettings(**given)  # type: ignore[arg-type]
        secrets = CommandSecrets(settings, NOWHERE, str(folder), ServedTool.rclone(settings, "", str(folder)))
        folders, calls = StageFolders(str(folder), str(folder)), StageCalls(self.guard.token)
        return Stage(settings, 1, folders, wait, secrets, lambda *_, **__: None, Phases(), calls)

    def fetch(self, name: str, **more: object) -> dict[str, bytes]:
        """Returns the input of a new VM, by its own listing."""
        fetch_inputs(self.vm(name, **more))  # type: ignore[arg-type]
        return self.data_of(name)

    def data_of(self, name: str) -> dict[str, bytes]:
        data = self.folder / name / "data"
        return {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()}

    @property
    def objects(self) -> list[Path]:
        """The objects of the only stage there is."""
        (files,) = self.bucket.glob("*/files")
        return sorted(path for path in files.rglob("*") if path.is_file())


class VmLost(Unwanted):
    """The VM is gone: its agent goes no further."""


TEARS = ("missing", "cut off", "longer", "other bytes")


def tear(path: Path, how: str) -> None:
    if how == "missing":
        path.unlink()
    elif how == "cut off":
        path.write_bytes(path.read_bytes()[:-1])
    elif how == "longer":
        path.write_bytes(path.read_bytes() + b"x")
    else:
        path.write_bytes(os.urandom(path.stat().st_size))


@contextmanager
def staged_ground(folder: Path, s3: S3Server, guard: FakeGuard) -> Iterator[StagedGround]:
    with counting_proxy(s3.url) as proxy:
        yield StagedGround(folder, s3, proxy, guard)
