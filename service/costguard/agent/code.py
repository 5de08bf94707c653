"""The job's code: fetched from the guard, checked, and unpacked once on this VM.

The guard serves it, not the bucket: archives are small, the VM reaches the guard anyway, no tool has to be fetched
first, and the VM's account needs no permission on a bucket that holds the code of all jobs.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import os
import shutil
import tarfile
import zlib
from typing import IO

from costguard.model.code_archive import FILE, IN_IMAGE, LINK, MOST_FILES, MOST_UNPACKED, WrongArchive, problem_of

from .calls import HttpCalls, Trouble, patiently
from .preparation import Stage
from .settings import NotStarted

TRIES = 6
CHUNK = 1 << 20


def put_code(stage: Stage) -> None:
    """Before the command: unpacks the code, unless an earlier run did, and lets the command run in it."""
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
    left = MOST_UNPACKED
    try:
        with gzip.open(path, "rb") as file:
            for part in iter(lambda: file.read(CHUNK), b""):
                left -= len(part)
                if left < 0:
                    raise WrongArchive(f"it is larger than {MOST_UNPACKED >> 20} MiB when it is unpacked")
                digest.update(part)
    except (EOFError, zlib.error, OSError) as broken:
        if isinstance(broken, OSError) and broken.errno is not None:  # the disk's, not the archive's
            raise
        raise WrongArchive(f"it is cut off or broken ({broken})") from None
    if digest.hexdigest() != sha256:
        raise WrongArchive(f"its SHA-256 is {digest.hexdigest()}, not {sha256}")


def unpack(path: str, folder: str, for_all: bool = False) -> None:
    """Unpacks a checked archive into a new folder. Python 3.8's tarfile has no filter, so each member is checked.

    Nothing is written through a link: links are made last. `for_all`: a container's user, who need not be root, may
    write. Raises WrongArchive or OSError.
    """
    links = {}
    _make_folder(folder, for_all)
    made = {folder}
    with tarfile.open(path, "r:gz", encoding="utf-8") as archive:
        for number, member in enumerate(archive, 1):
            kind = FILE if member.isreg() else LINK if member.issym() else ""
            problem = problem_of(member.name, kind, member.linkname)
            if problem or number > MOST_FILES:
                raise WrongArchive(problem or f"it has more than {MOST_FILES} files")
            place = folder
            for part in member.name.split("/")[:-1]:
                place = os.path.join(place, part)
                if place not in made:
                    _make_folder(place, for_all)
                    made.add(place)
            target = os.path.join(folder, member.name)
            if kind == LINK:
                links[target] = member.linkname
                continue
            content = archive.extractfile(member)
            assert content is not None
            _write(target, content, member.mode & 0o777 | (0o666 if for_all else 0o600))
    for target, leads_to in links.items():
        os.symlink(leads_to, target)


def _make_folder(path: str, for_all: bool) -> None:
    os.mkdir(path)
    os.chmod(path, 0o777 if for_all else 0o755)


def _write(path: str, content: IO[bytes], mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(content, file, CHUNK)
    os.chmod(path, mode)
