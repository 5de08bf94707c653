"""Runs py-spy on the command: one process of it takes many looks, since its start costs as much as all of them.

`--nonblocking` matters: py-spy otherwise stops every thread of the process at every look, which slowed a training with
many threads by 5 to 15 times (benfred/py-spy, issue 872). A look may then meet a stack that changes: py-spy leaves out
those that it cannot read ("Errors" at its end), and a frame may be wrong now and then.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from typing import Any, NamedTuple

from costguard_vm.agent.files import read

PATIENCE_S = 60  # beyond the span
_WAIT_S = 0.2
_MOST = 1 << 22  # characters of a record


class Recorded(NamedTuple):
    """The text of a record, empty where there is none; `error` is py-spy's last word, `cpu_s` what it used."""

    text: str
    error: str
    cpu_s: float


class Recording:
    """Records the stacks of a process for `span` seconds, `per_s` times in each, to a file that does not stay."""

    def __init__(self, py_spy: str, pid: int, span: int, per_s: int, output: str, options: list[str]) -> None:
        self._span, self._output = span, output
        command = [py_spy, "record", "--nonblocking", "--threads", "--format", "raw", "--rate", str(per_s), *options]
        command += ["--duration", str(span), "--output", output, "--pid", str(pid)]
        self._errors = open(f"{output}.err", "w+b")  # noqa: SIM115  it is read when the process has ended
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self._errors, cwd="/")

    def end(self) -> Recorded:
        """Waits for its end."""
        latest, usage = time.monotonic() + self._span + PATIENCE_S, None
        while usage is None:
            usage = self._ended(wait=False)
            if usage is None and time.monotonic() > latest:
                self._process.kill()
                self._ended(wait=True)
                break
            time.sleep(0 if usage else _WAIT_S)
        with self._errors as file:
            file.seek(0)
            lines = file.read(_MOST).decode("utf-8", "replace").strip().splitlines()
        os.unlink(f"{self._output}.err")
        if usage is None:
            return Recorded("", "it did not end", float(self._span))
        error = lines[-1] if self._process.returncode and lines else ""
        return Recorded(_taken(self._output), error, usage.ru_utime + usage.ru_stime)

    def _ended(self, wait: bool) -> Any:
        """Returns what it used of the VM once it has ended; None before."""
        pid, status, usage = os.wait4(self._process.pid, 0 if wait else os.WNOHANG)
        if not pid:
            return None
        self._process.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        return usage


def numbers_of(pid: int) -> list[str]:
    """Returns the numbers of the main thread, here and in its container (man 5 proc, NSpid)."""
    line = re.search(r"(?m)^NSpid:(.*)", read(f"/proc/{pid}/status"))
    return line.group(1).split() if line else [str(pid)]


def _taken(path: str) -> str:
    """Returns the file's text, and removes it: raw stacks have the full paths and command lines of people's files."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST)
        os.unlink(path)
    except OSError:
        return ""
    return text
