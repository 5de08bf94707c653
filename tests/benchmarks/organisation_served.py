"""An organisation served over HTTP from a process of its own: many projects, some that refuse and some that hang."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date

from tests.benchmarks.new_vms import MADE, ZONE, NewVm
from tests.gce.fleet_bodies import Mask, mask_of, pages
from tests.gce.server import Answer, Asked, google_error, serving

_PATTERN = "fleet-00000"
_IDS = tuple(f'"{kind}000000000000'.encode() for kind in "456")  # how the ids of VMs, disks and operations begin
_PAGE_SIZE = 500
_COLLECTIONS = ("instances", "disks", "operations")


def project_of(number: int) -> str:
    return f"fleet-{number:05d}"


@contextmanager
def served_organisation(
    projects: int, vms: int, refusing: int = 0, hanging: int = 0, started_on: date | None = None
) -> Iterator[str]:
    """The address of a Compute Engine with so many projects of `vms` VMs each, one disk and one operation a VM.

    The first `refusing` projects answer 403 to everything, and the next `hanging` take a request and never answer.
    With `started_on` all VMs were started on that day, else on the first 19 days of November 2026. VMs that are
    posted to MADE are listed from then on.
    """
    numbers = [str(number) for number in (projects, vms, refusing, hanging)]
    command = [sys.executable, "-m", "tests.benchmarks.organisation_served", *numbers, str(started_on or "")]
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


def _on(body: bytes, started_on: str) -> bytes:
    """The page with all VMs started on one day."""
    for day in range(1, 20) if started_on else ():
        body = body.replace(f"2026-11-{day:02d}T".encode(), f"{started_on}T".encode())
    return body


def _with(page: bytes, collection: str, more: list[bytes]) -> bytes:
    """The page with more VMs, disks or operations in the zone of new VMs."""
    first = b'"zones/%s":{"%s":[' % (ZONE.encode(), collection.encode())
    assert not more or first in page, page[:500]
    return page.replace(first, first + b"".join(one + b"," for one in more), 1)


def _main(projects: int, vms: int, refusing: int, hanging: int, started_on: str) -> None:
    masks = {"instances": (Mask.FIRST, Mask.LATER), "disks": (Mask.LATER,), "operations": (Mask.LATER,)}
    patterns = {
        (collection, mask): [
            _on(page, started_on) for page in pages(collection, vms, mask, project=_PATTERN, are_new=True)
        ]
        for collection in _COLLECTIONS
        for mask in masks[collection]
    }
    # What later looks ask for is ready, as it is with Google: the client alone is measured.
    later = {
        number: [_body(body, number) for body in patterns["instances", Mask.LATER]]
        for number in range(refusing + hanging, projects)
    }
    never = threading.Event()
    new = defaultdict[int, list[NewVm]](list)

    def answer(request: Asked) -> Answer:
        if request.path == MADE:
            for one in request.body:
                made = NewVm.of(one)
                new[made.project].append(made)
            return Answer()
        if "/locations/" in request.path:
            return Answer(b"{}")  # nothing of Vertex AI runs
        parts = request.path.split("/")
        number, collection = int(parts[4].removeprefix("fleet-")), parts[-1]
        if number < refusing:
            return google_error(403, "forbidden", "Required 'compute.instances.list' permission.")
        if number < refusing + hanging:
            never.wait()
        page = int(request.query.get("pageToken", "0")) // _PAGE_SIZE
        is_later = collection == "instances" and mask_of(request.query.get("fields")) is Mask.LATER
        mask = Mask.FIRST if collection == "instances" and not is_later else Mask.LATER
        body = later[number][page] if is_later else _body(patterns[collection, mask][page], number)
        more = [one.shown(collection, mask) for one in reversed(new[number])] if page == 0 and number in new else []
        return Answer(_with(body, collection, more) if more else body)

    with serving(answer) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
