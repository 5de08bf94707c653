"""Validates a job's inputs and outputs: their addresses, their paths on the VM, and what would overlap."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from urllib.parse import urlsplit

from costguard import credentials
from costguard.jobs.submit.submission import JobRefusal, shown
from costguard.model.job import Job, JobSpec, destinations_of
from costguard_vm.model.checkpoint import names_a_file

SCHEMES = ("s3", "gs", "file")
_FORMS = "write s3://bucket/path or gs://bucket/path"
# Google's rule, which allows all that Amazon's does: cloud.google.com/storage/docs/buckets#naming.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
# Where the VM's own files are, or where nothing may be kept. A folder in one of them is refused too.
_TAKEN = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr",
          "/var/lib/costguard", "/var/log/costguard")  # fmt: skip
# A folder that others write to: only a folder in it can be a job's.
_SHARED = ("/", "/home", "/mnt", "/opt", "/root", "/tmp", "/var", "/var/lib", "/var/log")  # noqa: S108
OURS = ".costguard"  # where outputs wait to be published, and logs are kept, below a destination


def data_problems(spec: JobSpec, guard_url: str) -> Iterator[JobRefusal]:
    """Everything that is wrong with the inputs and outputs, without a look at any bucket."""
    for number, one in enumerate(spec.inputs):
        yield from _of_address(f"inputs.{number}.source", one.source, guard_url)
        yield from path_problems(f"inputs.{number}.path", one.path)
    for where, destination in destinations_of(spec).items():
        yield from _of_address(where, destination, guard_url)
    for number, output in enumerate(spec.outputs):
        yield from path_problems(f"outputs.{number}.path", output.path)
        if spec.image and names_a_file(output.path) and not any(_mounts(mount, output.path) for mount in spec.mounts):
            message = f"{shown(output.path)} would be written in the container and go with it: name its folder, which"
            yield JobRefusal(f"outputs.{number}.path", f"{message} is mounted for you, or mount one of the VM there.")
    yield from _of_overlaps(spec)


def taken_problems(spec: JobSpec, open_jobs: Iterable[Job]) -> Iterator[JobRefusal]:
    """Destinations that a job publishes to which is not over: two outputs in one place would be mixed."""
    places = [(job, place) for job in open_jobs for place in destinations_of(job.spec).values()]
    for where, destination in destinations_of(spec).items():
        other = next((job for job, place in places if _touch(destination, place)), None)
        if other is not None:
            message = (
                f"Job {other.title}, which is not over, publishes there too: name another place, or cancel that job."
            )
            yield JobRefusal(where, message)


def other_provider(one: str, two: str) -> bool:
    """Says whether two addresses are with different providers, whose servers copy nothing to each other."""
    return one.partition("://")[0] != two.partition("://")[0]


def is_within(place: str, folder: str) -> bool:
    """Says whether a path or an address is a folder, or lies in it."""
    place, folder = place.rstrip("/"), folder.rstrip("/")
    return place == folder or place.startswith(f"{folder}/")


def _of_address(where: str, address: str, guard_url: str) -> Iterator[JobRefusal]:
    if credentials.in_text(address):
        return  # is refused for that, and no sentence may repeat it
    scheme, has_scheme, rest = address.partition("://")
    bucket, _, path = rest.partition("/")
    if not has_scheme or scheme not in SCHEMES:
        yield JobRefusal(where, f"{shown(address)} is no address of a bucket: {_FORMS}.")
        return
    if not address.isprintable() or any(part in (".", "..") for part in path.split("/")) or "//" in rest:
        yield JobRefusal(where, f"{shown(address)} has a part that is empty, . or .., or cannot be printed: {_FORMS}.")
    elif OURS in path.split("/"):
        yield JobRefusal(where, f"{shown(address)} is below {OURS}, where Costguard keeps its own files: leave it.")
    elif scheme == "file" and not (bucket == "" and path):
        yield JobRefusal(where, f"{shown(address)} names no folder: a file:// address has three slashes and a path.")
    elif scheme == "file" and urlsplit(guard_url).hostname not in ("127.0.0.1", "localhost", "::1"):
        yield JobRefusal(where, "VMs cannot open a folder of the guard's machine: use s3:// or gs://.")
    elif scheme != "file" and not _BUCKET.fullmatch(bucket):
        yield JobRefusal(where, f"{shown(bucket)} cannot be a bucket's name: {_FORMS}.")


def path_problems(where: str, path: str) -> Iterator[JobRefusal]:
    """Checks a path on the VM where the agent reads or writes a job's files."""
    if not path.startswith("/"):
        yield JobRefusal(where, f"{shown(path)} is no whole path: begin it with a slash, as in /data.")
    elif not path.isprintable() or ":" in path or not _is_plain(path):
        yield JobRefusal(where, f"{shown(path)} is no plain path: write it out, without . or .. and colons.")
    elif (path.rstrip("/") or "/") in _SHARED or any(is_within(path, taken) for taken in _TAKEN):
        yield JobRefusal(where, f"{shown(path)} belongs to the VM: name a folder of the job's own, such as /data.")


def _of_overlaps(spec: JobSpec) -> Iterator[JobRefusal]:
    """An output in an input's folder is right: `/data` and `/data/model`. The rest would mix what is kept apart."""
    for (one, first), (two, second) in combinations(enumerate(spec.inputs), 2):
        if _touch(first.path, second.path):
            message = f"It is in the same place as inputs.{one}: give each input a folder of its own."
            yield JobRefusal(f"inputs.{two}.path", message)
    for (number, output), one_input in product(enumerate(spec.outputs), spec.inputs):
        if is_within(one_input.path, output.path):
            message = f"It holds the input {one_input.path}, which would be published with it: name another folder."
            yield JobRefusal(f"outputs.{number}.path", message)
    for (where, destination), one_input in product(destinations_of(spec).items(), spec.inputs):
        if _touch(destination, one_input.source):
            message = f"It overlaps {shown(one_input.source)}, which is an input: the next VM would read both."
            yield JobRefusal(where, f"{message} Publish to another place.")
    yield from _of_destinations(destinations_of(spec))
    plan = spec.checkpoint
    for where, destination in destinations_of(spec).items():
        if plan is not None and "://" in plan.location and _touch(destination, plan.location):
            yield JobRefusal(where, "It overlaps the location of the checkpoints: publish to another place.")


def _of_destinations(destinations: Mapping[str, str]) -> Iterator[JobRefusal]:
    for (one, first), (two, second) in combinations(destinations.items(), 2):
        if _touch(first, second):
            other = one.removesuffix(".destination")
            yield JobRefusal(two, f"It overlaps {other}: give each output a place of its own.")


def _is_plain(path: str) -> bool:
    parts = path.removesuffix("/").split("/")[1:]
    return not any(part in ("", ".", "..") for part in parts)


def _touch(one: str, other: str) -> bool:
    return is_within(one, other) or is_within(other, one)


def _mounts(mount: str, path: str) -> bool:
    inside = [*mount.split(":"), ""][1]
    return bool(inside) and is_within(path, inside)
