"""A fleet served over HTTP from a process of its own: prepared bytes, full pages or those that a mask leaves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.gce.fleet_bodies import Mask, mask_of, pages
from tests.gce.server import Answer, Asked, serving

PROJECT = "training-fleet"
PAGE_SIZE = 500
_NO_OPERATIONS = b'{"kind":"compute#operationAggregatedList","items":{}}'


@contextmanager
def served_fleet(count: int, *, new: bool = False, bare: bool = False) -> Iterator[str]:
    """The address of a Compute Engine that has so many VMs, each with one disk.

    `new` VMs have an operation each that made them, and are served in masked pages alone: full ones, which only the
    plain client asks for, take 10 KB of memory a VM. Else there are no operations. `bare` ones have no metadata and no
    network interfaces, whatever is asked for.
    """
    kind = "new" if new else "bare" if bare else "old"
    command = [sys.executable, "-m", "tests.benchmarks.served", str(count), kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def _main(count: int, kind: str) -> None:
    is_new = kind == "new"
    collections = ("instances", "disks", "operations") if is_new else ("instances", "disks")
    masks = {"new": (Mask.FIRST, Mask.LATER), "bare": (Mask.BARE,), "old": (Mask.FULL, Mask.FIRST, Mask.LATER)}[kind]
    prepared = {
        (collection, mask): list(pages(collection, count, mask, project=PROJECT, are_new=is_new))
        for collection in collections
        for mask in masks
    }

    def answer(request: Asked) -> Answer:
        collection = request.path.rsplit("/", 1)[-1]
        if collection not in collections:
            return Answer(_NO_OPERATIONS)
        number = int(request.query.get("pageToken", "0")) // PAGE_SIZE
        mask = Mask.BARE if kind == "bare" else mask_of(request.query.get("fields"))
        if collection == "operations" or (collection == "disks" and mask is not Mask.FULL):
            mask = masks[-1]  # the masks of instances alone differ
        return Answer(prepared[collection, mask][number])

    with serving(answer) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2])
