"""Archives of code for tests: in memory, or away."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import IO

from tests.api.rows import NOW

from costguard.errors import CheckpointLocationUnavailable
from costguard_vm.model.checkpoint import StoredFile


class MemoryArchives:
    """Implements `model.ports.Archives`."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        self.now = NOW  # when what is put is stored
        self.is_away = False

    def find(self, name: str) -> StoredFile | None:
        self._check()
        if name not in self.objects:
            return None
        content, at = self.objects[name]
        return StoredFile(name, len(content), hashlib.sha256(content).hexdigest(), at)

    def put(self, name: str, file: IO[bytes]) -> None:
        self._check()
        self.objects[name] = (file.read(), self.now)

    def read(self, stored: StoredFile) -> Iterator[bytes]:
        self._check()
        yield from (self.objects[stored.path][0][:7], self.objects[stored.path][0][7:])

    def listing(self) -> Sequence[StoredFile]:
        self._check()
        return [stored for name in self.objects if (stored := self.find(name)) is not None]

    def delete(self, name: str) -> None:
        self._check()
        self.objects.pop(name, None)

    def _check(self) -> None:
        if self.is_away:
            raise CheckpointLocationUnavailable("gs://lab/code: the store does not answer.", "Check the network.")


def packed(files: dict[str, str], links: dict[str, str] | None = None) -> tuple[bytes, str]:
    """An archive of these contents by name, and its name."""
    plain = io.BytesIO()
    with tarfile.open(mode="w", fileobj=plain) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return gzip.compress(plain.getvalue()), hashlib.sha256(plain.getvalue()).hexdigest()
