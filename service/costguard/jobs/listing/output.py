"""Reads the whole output of an attempt from its stored pieces, a bounded part at a time."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from costguard.model.ports import Archives
from costguard.model.reported.output import OutputPlace, place_of_piece
from costguard_vm.model.checkpoint import StoredFile
from costguard_vm.model.log_pattern import LogPattern

OpenFolder = Callable[[str], Archives]  # by its location

MOST_LINES = 10_000  # in one answer
MOST_TEXT = 1 << 20  # characters in one answer
MOST_READ = 2 << 20  # bytes of output that one answer looks through
MOST_SEARCHED = 400_000  # nodes of a pattern that one answer visits: a fifth of a second of a core
LONGEST_LINE = 16_000  # characters that are shown of one line
_KEPT = 4 * LONGEST_LINE  # bytes of it
_MOST_PIECE = 64 << 20  # an agent writes 16 MiB; what a piece unpacks to beyond this is not read
_CHUNK = 1 << 20
_STYLING = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")  # of a terminal
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

_Chunk = tuple[OutputPlace, bytes]


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line as a terminal shows it. `is_whole` is False for the last one while its end is not there."""

    text: str
    ends: OutputPlace
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class OutputPage:
    """`next` is where the rest begins, also what is still to be stored. `is_end`: all that is stored was read.

    `stored_at` is when the newest piece was written; None where there is none.
    """

    lines: tuple[str, ...]
    next: OutputPlace
    is_end: bool
    stored_at: datetime | None


def page(
    store: Archives,
    begins: OutputPlace,
    most_lines: int,
    pattern: LogPattern | None = None,
    most_read: int = MOST_READ,
) -> OutputPage:
    """The next lines, or those of them that the pattern matches. Raises CheckpointError.

    One budget holds for a whole answer, whatever the pattern: what it does not reach is in the next one.
    """
    files = _pieces(store)
    stored_at = max((file.modified_at for file in files), default=None)
    lines: list[str] = []
    size, place, budget = 0, begins, MOST_SEARCHED
    for line in _lines(_chunks(store, files, begins), begins):
        if not line.is_whole:
            break  # it is read again once it is complete
        is_far = line.ends.run == begins.run and line.ends.offset - begins.offset > most_read and place > begins
        if len(lines) == most_lines or size > MOST_TEXT or is_far or budget <= 0:
            return OutputPage(tuple(lines), place, False, stored_at)
        if line.ends.run != begins.run:
            begins = OutputPlace(line.ends.run, 0)  # each run is counted from its beginning
        place = line.ends
        is_wanted, budget = (True, budget) if pattern is None else pattern.is_in(line.text, budget)
        if is_wanted:
            lines.append(line.text)
            size += len(line.text)
    return OutputPage(tuple(lines), place, True, stored_at)


def whole_text(store: Archives) -> Iterator[str]:
    """All of it, line by line, in bounded memory. Raises CheckpointError."""
    begins = OutputPlace(1, 0)
    for line in _lines(_chunks(store, _pieces(store), begins), begins):
        yield f"{line.text}\n"


def _pieces(store: Archives) -> list[StoredFile]:
    placed = [(place, file) for file in store.listing() if (place := place_of_piece(file.path)) is not None]
    return [file for _, file in sorted(placed, key=lambda pair: pair[0])]


def _chunks(store: Archives, files: Sequence[StoredFile], begins: OutputPlace) -> Iterator[_Chunk]:
    """Yields chunks from a place on: the part before it in its piece is unpacked and left out."""
    places = [place_of_piece(file.path) or OutputPlace() for file in files]
    for number, (place, file) in enumerate(zip(places, files, strict=True)):
        is_before = place.run < begins.run or (number + 1 < len(places) and places[number + 1] <= begins)
        if is_before:
            continue
        for data in _unpacked(store.read(file)):
            end = OutputPlace(place.run, place.offset + len(data))
            if end > begins:
                skipped = max(0, begins.offset - place.offset) if place.run == begins.run else 0
                yield OutputPlace(place.run, place.offset + skipped), data[skipped:]
            place = end


def _unpacked(parts: Iterable[bytes]) -> Iterator[bytes]:
    """A damaged piece ends where the damage begins: what follows is said to be missing."""
    unpacker, left = zlib.decompressobj(16 + zlib.MAX_WBITS), _MOST_PIECE
    for part in parts:
        packed = part
        while packed and left > 0 and not unpacker.eof:
            try:
                data = unpacker.decompress(packed, _CHUNK)
            except zlib.error:
                return
            packed, left = unpacker.unconsumed_tail, left - len(data)
            if data:
                yield data


@dataclass(slots=True)
class _OpenLine:
    """A line that is being read: of one that was overwritten the last state, of a long one the beginning."""

    ends: OutputPlace
    size: int = 0
    kept: bytearray = field(default_factory=bytearray)
    is_overwritten: bool = False  # by what follows

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self.ends = OutputPlace(self.ends.run, self.ends.offset + len(data))
        text = data.rstrip(b"\r\n")
        if text:
            last = text.rfind(b"\r")
            if last >= 0 or self.is_overwritten:
                self.kept.clear()
            self.kept += text[last + 1 :][: _KEPT - len(self.kept)]
        self.is_overwritten = data.endswith(b"\r") or (self.is_overwritten and not text)

    def shown(self, is_whole: bool = True) -> OutputLine:
        text = _CONTROL.sub("", _STYLING.sub("", self.kept.decode("utf-8", "replace")))
        if len(text) > LONGEST_LINE or len(self.kept) >= _KEPT:
            text = f"{text[:LONGEST_LINE]} [of {self.size:,} bytes]"
        return OutputLine(text, self.ends, is_whole)


def _lines(chunks: Iterable[_Chunk], begins: OutputPlace) -> Iterator[OutputLine]:
    line = _OpenLine(begins)
    for place, data in chunks:
        overlap = line.ends.offset - place.offset if place.run == line.ends.run else 0
        if overlap > 0:  # an agent that was killed wrote it twice
            data = data[overlap:]
        elif place != line.ends:
            if line.size:
                yield line.shown()
            if place.run == line.ends.run:
                yield OutputLine(f"[costguard: {-overlap:,} bytes of the output are missing here]", place)
            line = _OpenLine(place)
        for part in _split(data):
            line.add(part)
            if part.endswith(b"\n"):
                yield line.shown()
                line = _OpenLine(line.ends)
    if line.size:
        yield line.shown(is_whole=False)


def _split(data: bytes) -> Iterator[bytes]:
    """Splits data at line feeds alone."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin) + 1 or len(data)
        yield data[begin:end]
        begin = end
