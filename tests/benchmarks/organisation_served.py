"""An organisation served over HTTP from a process of its own: many projects, some that refuse and some that hang."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.gce.fleet_bodies import Mask, mask_of, pages
from tests.gce.server import Answer, Asked, google_error, serving

_PATTERN = "fleet-00000"
_IDS = tuple(f'"{kind}000000000000'.encode() for kind in "456")  # how the ids of VMs, disks and operations begin
_PAGE_SIZE = 500
_COLLECTIONS = ("instances", "disks", "operations")


def project_of(number: int) -> str:
    return f"fleet-{number:05d}"


@contextmanager
def served_organisation(projects: int, vms: int, refusing: int, hanging: int) -> Iterator[str]:
    """The address of a Compute Engine with so many projects of `vms` VMs each, one disk and one operation a VM.

    The first `refusing` projects answer 403 to everything, and the next `hanging` take a request and never answer.
    """
    numbers = [str(number) for number in (projects, vms, refusing, hanging)]
    command = [sys.executable, "-m", "tests.benchmarks.organisation_served", *numbers]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def _body(pattern: bytes, number: int) -> bytes:
    """The page of the pattern's project as that of another one: names, and ids that no other project has."""
    body = pattern.replace(_PATTERN.encode(), project_of(number).encode())
    for ids in _IDS:
        body = body.replace(ids, ids[:3] + b"%05d" % number + ids[8:])
    return body


def _main(projects: int, vms: int, refusing: int, hanging: int) -> None:
    masks = {"instances": (Mask.FIRST, Mask.LATER), "disks": (Mask.LATER,), "operations": (Mask.LATER,)}
    patterns = {
        (collection, mask): list(pages(collection, vms, mask, project=_PATTERN, are_new=True))
        for collection in _COLLECTIONS
        for mask in masks[collection]
    }
    # What later looks ask for is ready, as it is with Google: the client alone is measured.
    later = {
        number: [_body(body, number) for body in patterns["instances", Mask.LATER]]
        for number in range(refusing + hanging, projects)
    }
    never = threading.Event()

    def answer(request: Asked) -> Answer:
        parts = request.path.split("/")
        number, collection = int(parts[4].removeprefix("fleet-")), parts[-1]
        if number < refusing:
            return google_error(403, "forbidden", "Required 'compute.instances.list' permission.")
        if number < refusing + hanging:
            never.wait()
        page = int(request.query.get("pageToken", "0")) // _PAGE_SIZE
        if collection == "instances" and mask_of(request.query.get("fields")) is Mask.LATER:
            return Answer(later[number][page])
        mask = Mask.FIRST if collection == "instances" else Mask.LATER
        return Answer(_body(patterns[collection, mask][page], number))

    with serving(answer) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
