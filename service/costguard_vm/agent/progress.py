"""Reads the command's output, its step file and its trainer's state: how far it is, and the points of its curves."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import threading
import time
from typing import Any

from costguard_vm.progress.log_line import LogReading
from costguard_vm.progress.log_reader import LINE_END, OutputReader
from costguard_vm.progress.step_file import number_in_step_file, readings_of_json_lines, readings_of_trainer_state
from costguard_vm.progress.track import STEP, Point, Track

from .files import fleet_seconds, read, utc
from .log_reader import LogReader
from .settings import AttemptSettings

MOST_BYTES = 1 << 20  # of new output in one look: beyond it, its beginning is left unread
MOST_LINES = 600  # in one look, some 50 ms; a bar that is drawn again counts once
MOST_WORK_S = 0.1  # of a processor, for lines that are costly to read
MOST_PART = 64 << 10  # of a line that is not complete yet
MOST_STEP_FILE = 64 << 10
MOST_STATE = 2 << 20  # of a trainer's state that is read whole
MOST_END = 4096  # read at both ends of a larger one
MOST_FOLDERS = 200
POINTS_S = 60.0  # between two events, unless a value is not finite
NAMED = "named"  # the phase of a point that holds the metric which the job names


class ProgressReader:
    """Each byte of the output is read once. Safe for several threads.

    `folder` is where the command saves, as the VM sees it; "" where that is unknown. Where the output is there
    already, an agent before this one has reported it: it is read again for where it stands, and not as new points.
    """

    def __init__(self, settings: AttemptSettings, log: str, step_file: str, folder: str) -> None:
        self._settings, self._step_file = settings, step_file
        self._reader, self._part = LogReader(log), ""
        self._output, self._track = OutputReader(), Track()
        self._lock = threading.Lock()
        self._written = ""
        self._states = TrainerStates(folder)
        self._noted: list[LogReading] = []
        self._is_repeat = os.path.exists(log)
        self._sent_at = fleet_seconds()
        self._named: tuple[str, str] = ("", "")
        self._is_over = False

    def look(self, step: int | None, is_final: bool = False) -> int | None:
        """Reads what is new. `step`: what the owner's pattern found. Returns the step, if the training counts any."""
        with self._lock:
            if not self._is_over:
                self._read_output(is_final)
                self._read_step_file()
                self._read_states()
            if step is not None and step != self._track.done:
                self._track.count(step, utc(), fleet_seconds())
            if self._is_repeat:
                self._track.take_points()
                self._is_repeat = False
            done = self._track.done
            return int(done) if done is not None and self._track.unit == STEP else None

    def state(self) -> dict[str, Any]:
        """The field `progress`, once there is anything to report."""
        with self._lock:
            state = self._track.state()
        return {"progress": state} if state else {}

    def points(self, metric: dict[str, Any], is_final: bool = False) -> list[dict[str, Any]]:
        """Returns the points of the next event `progress`; none where it is not due.

        `metric`: what the job names, as events carry it.
        """
        with self._lock:
            now = fleet_seconds()
            if not is_final and now - self._sent_at < POINTS_S and not self._track.has_bad_value():
                return []
            self._sent_at = now
            points = self._track.take_points()
            last = (metric.get("metric") or {}).get("last") or {}
            if last and (last["at"], last["value"]) != self._named:
                self._named = (last["at"], last["value"])
                value, done = float(last["value"]), self._track.done
                points.append(Point(last["at"], self._track.unit, done, NAMED, None, {"metric": value}))
            return [point.as_json() for point in points]

    def watch(self, every_s: float, over: threading.Event) -> None:
        """Looks for trainers' states, separate from heartbeats, which must not wait for a slow disk."""
        while self._states.is_wanted and not over.wait(every_s):
            readings = self._states.look()
            with self._lock:
                self._noted += readings

    def _read_output(self, is_final: bool) -> None:
        text = self._part + self._reader.newest(MOST_BYTES).decode("utf-8", "replace")
        end = len(text) if is_final else max(text.rfind("\n"), text.rfind("\r")) + 1
        self._part = text[end:][-MOST_PART:]
        if is_final:
            self._is_over = True
            self._reader.close()
        at, now = utc(), fleet_seconds()
        until = time.thread_time() + MOST_WORK_S
        for line in shown(LINE_END.split(text[:end]))[-MOST_LINES:]:
            reading = self._output.read(line)
            if reading is not None:
                self._track.take(self._without_step(reading), at, now)
            if time.thread_time() > until:
                return

    def _without_step(self, reading: LogReading) -> LogReading:
        """The owner's pattern wins."""
        return reading._replace(step=None, total=None) if self._settings.step_pattern else reading

    def _read_step_file(self) -> None:
        text = end_of_file(self._step_file, MOST_STEP_FILE)
        before, self._written = self._written, text
        if text in ("", before):
            return
        at, now = utc(), fleet_seconds()
        number = number_in_step_file(text)
        if number is not None:
            self._track.count(number, at, now)
            return
        lines = text[len(before) :] if before and text.startswith(before) else text
        for reading in readings_of_json_lines(lines, OutputReader()):
            self._track.take(reading, at, now)

    def _read_states(self) -> None:
        noted, self._noted = self._noted, []
        for reading in noted:
            if (reading.step or 0) > (self._track.done or -1) and not self._settings.step_pattern:
                self._track.take(reading, utc(), fleet_seconds())


class TrainerStates:
    """The newest trainer_state.json in a folder and in its folders, of what is written from now on."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._last = time.time()
        self._step = -1

    @property
    def is_wanted(self) -> bool:
        return bool(self._folder)

    def look(self) -> list[LogReading]:
        """Reads the steps that no earlier look saw."""
        try:
            with os.scandir(self._folder) as entries:
                folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []
        newest = (self._last, "", 0)
        for folder in [self._folder, *sorted(folders)[-MOST_FOLDERS:]]:
            path = os.path.join(folder, "trainer_state.json")
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode) and status.st_mtime > newest[0]:
                    newest = (status.st_mtime, path, status.st_size)
        written_at, path, size = newest
        try:
            document = json.loads(read(path)) if size <= MOST_STATE else ends_of_state(path, size)
        except (OSError, ValueError):  # it is being written, or there is none
            return []
        self._last = written_at
        readings = readings_of_trainer_state(document, self._step)
        self._step = max([self._step, *(reading.step or 0 for reading in readings)])
        return readings


def ends_of_state(path: str, size: int) -> dict[str, float]:
    """Reads a state with a long history, its numbers alone:

    Trainer sorts its names, so that these stand at both ends.
    """
    with open(path, "rb") as file:
        head = file.read(MOST_END)
        file.seek(size - MOST_END)
        text = (head + file.read(MOST_END)).decode("utf-8", "replace")
    names = "global_step|max_steps|num_train_epochs"
    return {name: float(value) for name, value in re.findall(rf'(?m)^  "({names})": (\d+(?:\.\d+)?),?$', text)}


def end_of_file(path: str, most: int) -> str:
    """Nothing where it is no file: a pipe would hold up the agent."""
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - most))
                return file.read(most).decode("utf-8", "replace")
    return ""


def shown(lines: list[str]) -> list[str]:
    """Returns lines without a bar's earlier drawings: the text before the share of 100 % is the same in the next."""
    kept = []
    for line, after in zip(lines, [*lines[1:], ""]):
        title, sign, _ = line.partition("%|")
        if not sign or title.rstrip("0123456789 ") != after.partition("%|")[0].rstrip("0123456789 ") or "{" in line:
            kept.append(line)
    return kept
