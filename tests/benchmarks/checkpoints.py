"""Listing 10,000 objects of a bucket and finding the checkpoint to resume from, against a store on loopback."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.benchmarks.measure import Measured
from tests.checkpoints import writers

from costguard.checkpoints.buckets import StoreAccess
from costguard.checkpoints.client import StoredCheckpoints
from costguard_vm.model.checkpoint import LookFor

_CHECKPOINTS = 1_000  # of ten files each
_TIMES = 7


def checkpoints(folder: Path) -> Iterator[Measured]:
    """The store is another process, so that its time is not counted as ours where there are two cores."""
    del folder
    with subprocess.Popen([sys.executable, "-m", "tests.benchmarks.checkpoints"], stdout=subprocess.PIPE) as served:
        try:
            assert served.stdout is not None
            url = served.stdout.readline().decode().strip()
            reach = StoredCheckpoints(_access(url))
            for where, name in (("s3://bkt/run", "S3"), ("gs://bkt/run", "Google Cloud Storage")):
                yield Measured(f"listing 10,000 objects, {name}", "s", _seconds(partial(_list, reach, where)), 0.5)
                newest = f"the same, and the newest complete of 1,000 checkpoints, {name}"
                yield Measured(newest, "s", _seconds(partial(_look, reach, where)))
        finally:
            served.terminate()


def _access(url: str) -> StoreAccess:
    return StoreAccess(url, "us-east-1", url, {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"})


def _list(reach: StoredCheckpoints, where: str) -> None:
    assert len(reach.listing(where).files) == 10 * _CHECKPOINTS


def _look(reach: StoredCheckpoints, where: str) -> None:
    resume = reach.look(where, LookFor()).resume
    assert resume is not None
    assert resume.step == _CHECKPOINTS


def _seconds(work: Callable[[], None]) -> list[float]:
    taken = []
    for _ in range(_TIMES):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return taken


def _serve() -> None:
    """Prints the store's address, and serves until it is ended."""
    import threading

    from tests.checkpoints.store_stub import store

    with store() as bucket:
        bucket.objects = {
            f"run/{path}": body for step in range(1, _CHECKPOINTS + 1) for path, body in writers.hugging_face(step)
        }
        print(bucket.url, flush=True)
        threading.Event().wait(600)


if __name__ == "__main__":
    _serve()
