"""The command's output and progress: log files that are renamed when full, its last lines, and its step."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Any, BinaryIO

from costguard_vm.checkpoints.best import Evaluations
from costguard_vm.model.log_pattern import LogPattern

from .files import say, spare, utc
from .metric import MetricReader
from .progress import ProgressReader
from .settings import AttemptSettings

TAIL_BYTES = 64 << 10
NO_PROGRESS: dict[str, Any] = {"step": None, "step_at": None, "output": []}  # of a command that has not started


class CommandProgress:
    """The step that the command printed last, or wrote to its step file, and its last lines."""

    def __init__(
        self, settings: AttemptSettings, log: str, reader: ProgressReader, evaluations: Evaluations | None = None
    ) -> None:
        self._settings, self._log, self._reader = settings, log, reader
        self._pattern = LogPattern(settings.step_pattern) if settings.step_pattern else None
        self._step: int | None = None
        self._step_at: str | None = None
        self._metric = MetricReader(settings, log) if settings.metric_pattern else None
        if self._metric is not None:
            self._metric.evaluations = evaluations

    def now(self) -> dict[str, Any]:
        settings = self._settings
        return {**self._read(TAIL_BYTES, settings.output_lines, settings.output_bytes), **self._measured()}

    def final(self) -> dict[str, Any]:
        most = self._settings.exit_output_bytes
        return {**self._read(max(TAIL_BYTES, most), most, most, True), **self._measured(True)}

    def points(self, is_final: bool = False) -> list[dict[str, Any]]:
        """Returns the points of the next event `progress`, after `now` or `final`; none where it is not due."""
        return self._reader.points(self._metric.known() if self._metric is not None else {}, is_final)

    def read_metric(self) -> None:
        """Reads what was printed of the job's metric since the last look, for those who judge by its values."""
        self._measured()

    def _measured(self, is_final: bool = False) -> dict[str, Any]:
        return {} if self._metric is None else self._metric.look(self._step, is_final)

    def _read(self, bytes_read: int, most_lines: int, most_bytes: int, is_final: bool = False) -> dict[str, Any]:
        text = tail(self._log, bytes_read)
        printed = self._pattern.last_in(text) if self._pattern is not None else ""
        # None where it has scrolled away: the last one stays.
        step = self._reader.look(int(printed) if printed.isdecimal() else None, is_final)
        if step is not None and step != self._step:
            self._step, self._step_at = step, utc()
        lines = last_lines(text, most_lines, most_bytes)
        return {"step": self._step, "step_at": self._step_at, "output": lines, **self._reader.state()}


SPARE_BYTES = 512 << 10  # of the output, twice, while the disk is full


class OutputLog:
    """A log file that is renamed when it is full.

    While the disk is full, the end of the output is kept in memory: the last lines say why a command failed.
    """

    def __init__(self, path: str, most_bytes: int, files: int) -> None:
        self._path, self._most, self._files = path, most_bytes, max(2, files)
        self._file = self._open(path)
        self._spare: BinaryIO | None = None

    def write(self, data: bytes) -> None:
        if self._spare is not None and self._has_room():
            self._return_to_disk()
        if self._spare is None:
            data = data[self._put(data) :]
        if data:
            self._keep_in_memory(data)

    def close(self) -> None:
        for file in (self._file, self._spare):
            if file is not None:
                file.close()

    def _put(self, data: bytes) -> int:
        """Writes to the disk; returns how many bytes it took."""
        with contextlib.suppress(OSError):
            if self._file is not None and 0 < self._file.tell() > self._most - len(data):
                self._file.close()
                self._rename()
                self._file = self._open(self._path)
            if self._file is not None:
                return self._file.write(data) or 0
        return 0

    def _keep_in_memory(self, data: bytes) -> None:
        place = spare(self._path)
        with contextlib.suppress(OSError):
            if self._spare is None:
                os.makedirs(os.path.dirname(place), exist_ok=True)
                self._spare = open(place, "ab", buffering=0)  # noqa: SIM115  it stays open
            elif self._spare.tell() > SPARE_BYTES:
                self._spare.close()
                os.replace(place, place + ".1")
                self._spare = open(place, "ab", buffering=0)  # noqa: SIM115  it stays open
            self._spare.write(data)

    def _has_room(self) -> bool:
        try:
            return shutil.disk_usage(os.path.dirname(self._path)).free > 8 * SPARE_BYTES
        except OSError:
            return False

    def _return_to_disk(self) -> None:
        if self._spare is not None:
            self._spare.close()
        self._spare = None
        if self._file is None:
            self._file = self._open(self._path)
        for place in (spare(self._path) + ".1", spare(self._path)):
            with contextlib.suppress(OSError), open(place, "rb") as kept:
                self._put(kept.read())
            with contextlib.suppress(OSError):
                os.unlink(place)

    def _rename(self) -> None:
        for number in range(self._files - 1, 0, -1):
            younger = self._path if number == 1 else f"{self._path}.{number - 1}"
            if os.path.exists(younger):
                os.replace(younger, f"{self._path}.{number}")

    def _open(self, path: str) -> BinaryIO | None:
        try:
            return open(path, "ab", buffering=0)
        except OSError as error:
            say(f"the command's output is not kept on the disk: {error}")
            return None


def pump(source: int, log: OutputLog, hidden: list[bytes]) -> None:
    """Copies output until the last process that holds it has ended. Secrets become stars, also across reads."""
    held = b""
    while True:
        data = os.read(source, 65536)
        held += data
        for secret in hidden:
            held = held.replace(secret, b"***")
        longest = min(len(held), max(map(len, hidden), default=1) - 1) if data else 0
        keep = next((n for n in range(longest, 0, -1) if any(s.startswith(held[-n:]) for s in hidden)), 0)
        log.write(held[: len(held) - keep])
        held = held[len(held) - keep :]
        if not data:
            return


def tail(path: str, most_bytes: int) -> str:
    """The end of a log that may just have been rotated, or that goes on in memory."""
    content = b""
    for name in (spare(path), spare(path) + ".1", path, path + ".1"):
        wanted = most_bytes - len(content)
        with contextlib.suppress(OSError), open(name, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - wanted))
            content = file.read(wanted) + content
    return content.decode("utf-8", "replace")


def last_lines(text: str, most_lines: int, most_bytes: int) -> list[str]:
    """The last lines as a terminal shows them: a progress bar overwrites itself."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip("\n").split("\n")]
    kept: list[str] = []
    for line in reversed(lines[-most_lines:]):
        short = line[:most_bytes]
        most_bytes -= len(short) + 1
        kept.insert(0, short)
        if most_bytes <= 0:
            break
    return kept if kept != [""] else []
