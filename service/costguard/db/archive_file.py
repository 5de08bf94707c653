"""Archive files: gzip of JSON lines, the first what it is, the last how many rows it has and their SHA-256.

`zcat FILE` shows one. A file is in its place once it is whole and on the disk, under a name that says its content: to
write the same again changes nothing.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

from costguard.db.backup.archive import sync_folder
from costguard.errors import Invalid, Missing

FORMAT = 1
Json: TypeAlias = Mapping[str, Any]
_LEVEL = 6
_NAME = re.compile(r"[a-z]+-\d{8}-\d{8}-[0-9a-f]{16}\.jsonl\.gz")
_LOST = "Put the file back from a backup of the folder; totals do not need it."


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A written archive: the name in its folder, the rows, the bytes on the disk and their SHA-256."""

    name: str
    row_count: int
    byte_count: int
    sha256: str


def write(folder: Path, kind: str, first: date, last: date, rows: Iterable[Json]) -> ArchiveFile:
    """Write and sync one file. Raises Invalid where the folder cannot be written."""
    begun = folder / f".{kind}.{secrets.token_hex(4)}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(opened, "wb") as file:
                # No name and no time: equal rows make equal files.
                with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
                    count, digest = _write_rows(packed, kind, rows)
                file.flush()
                os.fsync(file.fileno())
            size, whole = begun.stat().st_size, _sha256(begun)
            name = f"{kind}-{first:%Y%m%d}-{last:%Y%m%d}-{digest[:16]}.jsonl.gz"
            begun.replace(folder / name)  # where there is one by now, it is the same
        finally:
            begun.unlink(missing_ok=True)
        sync_folder(folder)
    except OSError as error:
        text = f"The archive {folder} cannot be written: {error.strerror or error}."
        raise Invalid(text, "Nothing was removed from the database. Make room, or let this user write there.") from None
    return ArchiveFile(name, count, size, whole)


def read(path: Path, sha256: str | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a file; its first and last line are checked and left out.

    Raises Missing where there is no such file, and Invalid where it is not what was written: at the latest after the
    last row, or before the first one where its SHA-256 is given.
    """
    try:
        if sha256 is not None and _sha256(path) != sha256:
            raise Invalid(f"The archive {path} is damaged: its SHA-256 is not that of the file written.", _LOST)
        with gzip.open(path, "rb") as lines:
            head = json.loads(next(lines, b"{}"))
            if head.get("costguard_archive") != FORMAT:
                raise Invalid(f"{path} is no archive that this version of Costguard can read.", _LOST)
            yield from _rows(path, lines)
    except FileNotFoundError:
        raise Missing(f"The archive {path} is not there.", _LOST) from None
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise Invalid(f"The archive {path} cannot be read: {error}.", _LOST) from None


def named(folder: Path, name: str) -> Path:
    """The file of that name in the folder. Raises Invalid for a name that no archive has."""
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name!r} is no name of an archive.", "`costguard db archive --list` lists them.")
    return folder / name


def _write_rows(packed: gzip.GzipFile, kind: str, rows: Iterable[Json]) -> tuple[int, str]:
    digest, count = hashlib.sha256(), 0
    packed.write(_line({"costguard_archive": FORMAT, "kind": kind}))
    for row in rows:
        line = _line(row)
        digest.update(line)
        packed.write(line)
        count += 1
    packed.write(_line({"rows": count, "sha256": digest.hexdigest()}))
    return count, digest.hexdigest()


def _rows(path: Path, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    digest, count = hashlib.sha256(), 0
    held: bytes | None = None
    for line in lines:
        if held is not None:
            digest.update(held)
            count += 1
            yield json.loads(held)
        held = line
    last = {} if held is None else json.loads(held)
    if last != {"rows": count, "sha256": digest.hexdigest()}:
        raise Invalid(f"The archive {path} is damaged: its rows are not those that were written.", _LOST)


def _line(row: Json) -> bytes:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
