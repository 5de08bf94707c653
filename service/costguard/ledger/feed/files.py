"""Reads the log entries in the files of a folder, for people who want to see what Costguard makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costguard.errors import Invalid
from costguard.ledger.feed.entry import FeedEntry
from costguard.ledger.feed.kinds import FeedKind
from costguard.ledger.feed.reading import Torn, read_entries

MOST_READ = 64 << 20  # bytes of one file: Cloud Logging's exports to a bucket have a file for each hour
_ENDINGS = (".json", ".jsonl", ".ndjson")
_NOTHING = {
    "instance_id": None,
    "who": None,
    "machine_type": None,
    "provisioning": None,
    "at": None,
}


@dataclass(frozen=True, slots=True)
class EntryOfFile:
    """Holds an entry of a file, or the reason why a part of the file is none."""

    file: str  # relative to the folder
    place: int  # in its file, from 1
    said: FeedEntry | Torn

    @property
    def problem(self) -> str | None:
        return self.said.why if isinstance(self.said, Torn) else None

    def as_json(self) -> dict[str, Any]:
        """Returns the row that people and programs see. A torn part changes nothing, so its kind is noise."""
        if isinstance(self.said, Torn):
            said = {"kind": FeedKind.NOISE.value, **_NOTHING, "problem": self.said.why}
        else:
            said = {**self.said.as_json(), "problem": None}
        return {"file": self.file, "entry": self.place, **said}


def entries_of_files(place: str) -> list[EntryOfFile]:
    """Reads every file of JSON in a folder and in those in it, or one file. Raises Invalid where there is none."""
    folder = Path(place)
    if folder.is_file():
        return list(_of_file(folder, folder.name))
    files = sorted(file for ending in _ENDINGS for file in folder.rglob(f"*{ending}")) if folder.is_dir() else []
    if not files:
        what = "has no *.json, *.jsonl or *.ndjson files" if folder.is_dir() else "is no folder"
        raise Invalid(f"{place} {what}.", "Name the folder that holds log entries as JSON, one or more in each file.")
    return [entry for file in files for entry in _of_file(file, file.relative_to(folder).as_posix())]


def _of_file(file: Path, name: str) -> Iterator[EntryOfFile]:
    try:
        with file.open("rb") as source:
            data = source.read(MOST_READ + 1)
    except OSError as error:
        yield EntryOfFile(name, 1, Torn(f"it cannot be read: {error.strerror or error}"))
        return
    if len(data) > MOST_READ:
        yield EntryOfFile(name, 1, Torn(f"it is longer than {MOST_READ >> 20} MiB: split it into files of JSON lines"))
        return
    for place, said in enumerate(read_entries(data), start=1):
        yield EntryOfFile(name, place, said)
