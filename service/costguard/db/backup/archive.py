"""The archive: a zip file that holds `manifest.json` and the database, each part with its size and SHA-256.

Of SQLite the part is the database file itself, `ledger.sqlite`; of PostgreSQL it is one part a table, in the text
format of COPY (https://www.postgresql.org/docs/current/sql-copy.html). Any unzip and sqlite3, or psql, can read it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ValidationError

from costguard.errors import Conflict, Invalid

FORMAT = 1
MANIFEST = "manifest.json"
LEDGER = "ledger.sqlite"
_CHUNK = 1 << 20
_MOST_MANIFEST = 1 << 20


class Part(BaseModel):
    """A file of the archive."""

    size: int
    sha256: str


class Rows(BaseModel):
    """A table: the number of its rows, and of PostgreSQL its columns in the order of the copy."""

    rows: int
    columns: list[str] = []


class Manifest(BaseModel):
    """The description of an archive by itself. `tables` stand in the order in which they can be filled again."""

    format: int
    kind: str  # "sqlite" or "postgresql"
    made_at: AwareDatetime
    costguard: str  # the version that made it
    revision: str  # of the schema
    generation: int
    tables: dict[str, Rows]
    parts: dict[str, Part] = {}


class Writer:
    """Parts are added one after the other; the manifest comes last."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.parts: dict[str, Part] = {}

    def add(self, name: str, chunks: Iterable[bytes]) -> None:
        digest, size = hashlib.sha256(), 0
        with self._archive.open(name, "w", force_zip64=True) as part:
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                part.write(chunk)
        self.parts[name] = Part(size=size, sha256=digest.hexdigest())

    def finish(self, manifest: Manifest) -> None:
        whole = manifest.model_copy(update={"parts": self.parts})
        self._archive.writestr(MANIFEST, whole.model_dump_json(indent=2))


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """The file is there once it is whole, for its owner alone, and never in the place of another.

    Raises Conflict.
    """
    path = path.absolute()
    if path.exists():
        raise _exists(path)
    begun = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        opened = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Invalid(
            f"{path} cannot be written: {error.strerror}.", "Name a file in a folder where this user may write."
        ) from error
    try:
        with os.fdopen(opened, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                yield Writer(archive)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(begun, path)  # fails where there is one by now, as a rename would not
        except FileExistsError:
            raise _exists(path) from None
    finally:
        begun.unlink(missing_ok=True)
    sync_folder(path.parent)


class Reader:
    """An archive whose manifest was read. `read` gives a part only as it was written."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._archive = archive

    def read(self, name: str) -> Iterator[bytes]:
        """Raises Invalid at the end of a part that is not what the manifest says."""
        described = self.manifest.parts.get(name)
        if described is None:
            raise Invalid(f"{self.path} lacks {name}.", _ANOTHER)
        digest, size = hashlib.sha256(), 0
        try:
            with self._archive.open(name) as part:
                while chunk := part.read(_CHUNK):
                    digest.update(chunk)
                    size += len(chunk)
                    yield chunk
        except (KeyError, zipfile.BadZipFile, EOFError, OSError, ValueError) as error:
            raise Invalid(f"{self.path} is damaged: {name} cannot be read ({error}).", _ANOTHER) from error
        if (size, digest.hexdigest()) != (described.size, described.sha256):
            raise Invalid(f"{self.path} is damaged: {name} is not what was written.", _ANOTHER)


@contextmanager
def reading(path: Path) -> Iterator[Reader]:
    """Raises Invalid for what is no whole archive of a format that this version knows."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield Reader(path, archive, _manifest(path, archive))
    except FileNotFoundError as error:
        raise Invalid(f"There is no file {path}.", "Name a file that `costguard db backup` made.") from error
    except (zipfile.BadZipFile, IsADirectoryError, PermissionError) as error:
        raise Invalid(f"{path} is no backup that can be read ({error}).", _ANOTHER) from error


def sync_folder(folder: Path) -> None:
    """Syncs a folder, so that a name in it outlives a power cut."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def chunks_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _manifest(path: Path, archive: zipfile.ZipFile) -> Manifest:
    try:
        with archive.open(MANIFEST) as file:
            fields = json.loads(file.read(_MOST_MANIFEST))
        if isinstance(fields, dict) and isinstance(fields.get("format"), int) and fields["format"] > FORMAT:
            raise Invalid(
                f"{path} was made by a later version of Costguard ({fields.get('costguard')}).", "Install that version."
            )
        return Manifest.model_validate(fields)
    except (KeyError, ValueError, ValidationError, zipfile.BadZipFile) as error:
        raise Invalid(f"{path} is no backup that `costguard db backup` made.", _ANOTHER) from error


def _exists(path: Path) -> Conflict:
    return Conflict(f"There is a file {path} already, and nothing was written.", "Name another file.")


_ANOTHER = "Use another backup."
