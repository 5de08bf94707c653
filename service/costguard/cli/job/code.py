"""`--workdir`: packs a folder, and uploads it to the guard unless it is there already."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from costguard import credentials
from costguard.cli.job import repository
from costguard.cli.job.repository import RepositoryState
from costguard.cli.job.work_directory import WorkFile, size_text, work_files
from costguard.cli.server import ServerClient
from costguard.errors import Invalid
from costguard.model.words import count_text

_LEVEL = 6
_MOST_SCANNED = 256 << 10  # larger files are data, or generated


@dataclass(frozen=True, slots=True)
class PackedCode:
    """An open archive. `size` is in bytes, packed."""

    file: IO[bytes]
    sha256: str
    size: int
    files: int
    state: RepositoryState

    @property
    def body(self) -> dict[str, Any]:
        """Returns the part of a job's request that names the archive."""
        state = self.state
        numbers: dict[str, Any] = {"sha256": self.sha256, "size": self.size, "files": self.files}
        return {**numbers, "commit": state.commit, "branch": state.branch, "diff": state.diff}


def sent(server: ServerClient, folder: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """The job's field `code`, once the guard has the archive."""
    with packed(folder, tell) as code:
        files = count_text(code.files, "file")
        if server.has("code", code.sha256):
            tell(f"{folder.resolve().name}: {files}, which the server already has.")
        else:
            tell(f"{folder.resolve().name}: {files}, {size_text(code.size)} to upload.")
            server.put("code", code.sha256, file=code.file, size=code.size)
        return code.body


@contextmanager
def packed(folder: Path, tell: Callable[[str], None]) -> Iterator[PackedCode]:
    """The archive in a temporary file. Raises Invalid with everything that cannot travel."""
    files = work_files(folder)
    for warning in secrets_in(folder, files):
        tell(warning)
    state = repository.state_of(folder) if repository.in_repository(folder) else RepositoryState()
    with tempfile.TemporaryFile(prefix="costguard-code-") as file:
        sha256 = write_archive(file, folder, files)
        size = file.tell()
        file.seek(0)
        yield PackedCode(file, sha256, size, len(files), state)


def write_archive(file: IO[bytes], folder: Path, files: Iterable[WorkFile]) -> str:
    """Writes a gzipped tar. The SHA-256 of the tar inside: the same for the same names, modes and contents.

    Owners and times are left out, and folders are made by the files in them.
    """
    with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0) as zipped:
        hashed = _Hashed(zipped)
        with tarfile.open(mode="w|", fileobj=hashed, format=tarfile.PAX_FORMAT, encoding="utf-8") as archive:
            for one in sorted(files, key=lambda file: file.name.encode()):
                _add(archive, folder, one)
    return hashed.sha256.hexdigest()


def _add(archive: tarfile.TarFile, folder: Path, one: WorkFile) -> None:
    member = tarfile.TarInfo(one.name)
    member.mode, member.mtime = one.mode, 0
    if one.target:
        member.type, member.linkname = tarfile.SYMTYPE, one.target
        archive.addfile(member)
        return
    try:
        with open(os.path.join(folder, one.name), "rb") as content:
            member.size = one.size
            archive.addfile(member, content)
            is_longer = bool(content.read(1))
    except OSError as wrong:
        raise Invalid(f"{one.name} could not be packed: {wrong}.", "Run it again once nothing writes to it.") from None
    if is_longer:
        raise Invalid(f"{one.name} grew while it was packed.", "Run it again once nothing writes to it.")


class _Hashed(io.RawIOBase):
    """Passes everything on, and keeps its SHA-256."""

    def __init__(self, inner: gzip.GzipFile) -> None:
        self._inner = inner
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.sha256.update(content)
        return self._inner.write(content)


def secrets_in(folder: Path, files: Iterable[WorkFile]) -> Iterator[str]:
    """A warning for each file that holds what looks like a credential: all readers of the bucket could use it."""
    for one in files:
        if one.target or one.size > _MOST_SCANNED:
            continue
        with open(os.path.join(folder, one.name), "rb") as file:
            content = file.read(_MOST_SCANNED)
        if b"\x00" not in content and (kind := credentials.in_text(content.decode("utf-8", "replace"))):
            yield (
                f"{one.name} holds what looks like {kind}: list it in .costguardignore, "
                "and give it to the job by reference with --secret."
            )
