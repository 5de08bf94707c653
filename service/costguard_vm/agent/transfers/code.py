"""The job's code: fetched from the guard, checked, and unpacked once on this VM.

The guard serves it, not the bucket: archives are small, the VM reaches the guard anyway, no tool has to be fetched
first, and the VM's account needs no permission on a bucket that holds the code of all jobs.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Iterable

from costguard_vm.agent.calls import HttpCalls
from costguard_vm.agent.failures import Trouble, patiently
from costguard_vm.agent.settings import NotStarted
from costguard_vm.model.code_archive import FILE, IN_IMAGE, ArchiveContents, WrongArchive
from costguard_vm.model.tar_stream import GzipStream, TarStream

from .preparation import Stage

TRIES = 6
CHUNK = 1 << 20


def put_code(stage: Stage) -> None:
    """Unpacks the code before the command, unless an earlier run did, and lets the command run in it."""
    settings = stage.settings
    if not settings.code:
        return
    folder = os.path.join(stage.folder, "code")
    if not os.path.isdir(folder):
        _fetch(stage, folder)
    top, mounts = (
        (IN_IMAGE, [*settings.mounts, f"{folder}:{IN_IMAGE}"]) if settings.image else (folder, settings.mounts)
    )
    below = "" if settings.workdir.startswith("/") else settings.workdir
    if below and not os.path.isdir(os.path.join(folder, below)):
        raise NotStarted(f"there is no folder {below} in the code: correct --cd, or the work directory", True)
    workdir = settings.workdir if settings.workdir.startswith("/") else os.path.join(top, below).rstrip("/")
    stage.changes.update(workdir=workdir, mounts=mounts)


def _fetch(stage: Stage, folder: str) -> None:
    """All of it or nothing, also where the agent is killed. Raises NotStarted or Trouble."""
    settings, archive, new = stage.settings, f"{folder}.tar.gz", f"{folder}.new"
    url = f"{settings.guard.rstrip('/')}/api/v1/attempts/{settings.attempt}/code"
    headers = {"Authorization": f"Bearer {stage.token}"}
    http = HttpCalls(settings.guard_ca)
    os.makedirs(stage.folder, exist_ok=True)
    try:
        for is_last in (False, True):
            patiently(lambda: http.save(url, headers, archive), stage.wait, TRIES, settings.retry_s)
            try:
                check(archive, settings.code["sha256"])
                break
            except WrongArchive as wrong:
                if is_last:
                    raise NotStarted(f"the code that the guard serves cannot be used: {wrong}", True) from None
        shutil.rmtree(new, ignore_errors=True)
        unpack(archive, new, bool(settings.image))
        os.rename(new, folder)
    except OSError as problem:
        is_full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "; take a larger disk" if is_full else ""
        raise NotStarted(f"the code cannot be unpacked: {problem.strerror or problem}{hint}", is_full) from None
    except Trouble as trouble:
        if trouble.status in (404, 410):
            raise NotStarted(f"the guard has no code for this job: {trouble}", True) from None
        raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(archive)


def check(path: str, sha256: str) -> None:
    """Raises WrongArchive where the tar inside is not the one that is named."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        unpacked = GzipStream(file)
        for part in iter(lambda: unpacked.read(CHUNK), b""):
            digest.update(part)
    if digest.hexdigest() != sha256:
        raise WrongArchive(f"its SHA-256 is {digest.hexdigest()}, not {sha256}")


def unpack(path: str, folder: str, for_all: bool = False) -> None:
    """Unpacks a checked archive into a new folder.

    Nothing is written through a link: links are made last. `for_all`: a container's user, who need not be root, may
    write. Raises WrongArchive or OSError.
    """
    contents = ArchiveContents()
    _make_folder(folder, for_all)
    made = {folder}
    with open(path, "rb") as file:
        archive = TarStream(GzipStream(file).read)
        for member in archive:
            contents.add(member.name, member.kind, member.target)
            place = folder
            for part in member.name.split("/")[:-1]:
                place = os.path.join(place, part)
                if place not in made:
                    _make_folder(place, for_all)
                    made.add(place)
            if member.kind == FILE:
                mode = member.mode | (0o666 if for_all else 0o600)
                _write(os.path.join(folder, member.name), archive.pieces(), mode)
    contents.finish()
    for name, target in contents.links.items():
        os.symlink(target, os.path.join(folder, name))


def _make_folder(path: str, for_all: bool) -> None:
    os.mkdir(path)
    os.chmod(path, 0o777 if for_all else 0o755)


def _write(path: str, content: Iterable[bytes], mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.writelines(content)
    os.chmod(path, mode)
