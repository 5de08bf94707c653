"""Reads the stacks that py-spy recorded, and shortens their files to what names them in the project or its package.

py-spy's format `raw` has a line for each stack: the processes from the recorded one down, the thread, the frames from
the outermost on, and the count (py-spy 0.4, src/flamegraph.rs and src/main.rs). Neither holds arguments or values; the
command line that it gives of each process is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Dict, NamedTuple, Tuple

DEEPEST = 90  # frames of a stack; of a deeper one the middle is left out
_LONGEST_NAME, _LONGEST_FILE = 120, 160  # characters
_FRAME = re.compile(r"(.*) \((.*?)(?::(\d+))?\)$")
_PROCESS = re.compile(r'process (\d+):"')
_THREAD = re.compile(r"(?:^|;)thread \((\w+)\)(: MainThread)?(?:: [^;]*)?;")
_PACKAGES = re.compile(r"(?:^|/)(?:site|dist)-packages/(.+)$")
_STANDARD = re.compile(r"(?:^|/)(?:lib(?:64)?/python\d(?:\.\d+)?|python\d+\.zip)/(.+)$")
_HOME = re.compile(r"^/(?:home|Users)/[^/]+/")
# Processes that wait for others all the time, or compile kernels: they are no part of the training's data or steps.
_HELPERS = re.compile(r"multiprocessing/(?:resource|semaphore)_tracker|torch/_inductor/compile_worker")
_WORKER = "torch/utils/data/_utils/worker.py"


class Frame(NamedTuple):
    """A function, its file and the line where it begins (0: not known). `is_own`: it is the project's, no library's."""

    function: str
    file: str
    line: int
    is_own: bool

    @property
    def name(self) -> str:
        """Returns the function's own name, without its class."""
        return self.function.rpartition(".")[2]

    @property
    def text(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{self.function} ({place})"


Stack = Tuple[Frame, ...]  # the outermost first
Counts = Dict[Stack, int]
OMITTED = Frame("(frames left out)", "", 0, False)


def shortened(path: str, folder: str) -> tuple[str, bool]:
    """Shortens a file's path, and says whether it is the project's own. `folder` is where the command runs; "": not
    known.
    """
    for library in (_PACKAGES, _STANDARD):
        match = library.search(path)
        if match:
            return match.group(1), False
    if path.startswith("<"):
        return path, False
    if folder not in ("", "/") and path.startswith(f"{folder}/"):
        return path[len(folder) + 1 :], True
    if not path.startswith("/"):
        return path, True
    return "/".join(_HOME.sub("", path).lstrip("/").split("/")[-2:]), True


def read_frame(text: str, folder: str) -> Frame:
    match = _FRAME.match(text)
    function, path, line = match.groups() if match else (text, "", None)
    file, is_own = shortened(path, folder) if path else ("", False)
    return Frame(function[:_LONGEST_NAME], file[-_LONGEST_FILE:], int(line or 0), is_own)


def read_recorded(text: str, main: Sequence[str], folder: str) -> tuple[Counts, Counts]:
    """Returns the stacks of the main thread, and those of the main threads of the processes below it.

    `main` are the numbers of the recorded process, here and in its container: a program that never imported threading
    has no names for its threads.
    """
    own: Counts = {}
    below: Counts = {}
    frames: dict[str, Frame] = {}
    for line in text.splitlines():
        words, _, count = line.rpartition(" ")
        thread = _THREAD.search(words)
        if thread is None or not count.isdecimal():
            continue
        processes = _PROCESS.findall(words[: thread.start()])
        numbers = [*main] if len(processes) < 2 else processes[-1:]
        if not (thread.group(2) or thread.group(1) in numbers):
            continue
        names = words[thread.end() :].split(";")
        stack = tuple(frames.setdefault(name, read_frame(name, folder)) for name in names if name)
        if not stack or any(_HELPERS.search(frame.file) for frame in stack):
            continue
        counted, stack = (own, stack) if len(processes) < 2 else (below, from_worker(stack))
        stack = cut(stack)
        counted[stack] = counted.get(stack, 0) + int(count)
    return own, below


def from_worker(stack: Stack) -> Stack:
    """Leaves out what a forked worker has of the frames that started it."""
    for place, frame in enumerate(stack):
        if frame.file == _WORKER:
            return stack[place:]
    return stack


def cut(stack: Stack) -> Stack:
    if len(stack) <= DEEPEST:
        return stack
    half = DEEPEST // 2
    return (*stack[: half - 1], OMITTED, *stack[-half:])


def most_frequent(counts: Mapping[Stack, int]) -> list[Stack]:
    """Returns the stacks, the most frequent first; equals in one order everywhere."""
    return sorted(counts, key=lambda stack: (-counts[stack], stack))
