"""What an agent leaves for the one after it: which run this is, what the guard was told, what was asked for."""

from __future__ import annotations

import os
import threading
from typing import Any

from .files import boot_id, read_json, say, write_json

MACHINE_ENDS = ("preemption", "maintenance", "shutdown")  # these are no answers of the guard


class State:
    """state.json in the attempt's folder. The runner's own files stand in the folder of the run."""

    def __init__(self, folder: str) -> None:
        self._folder, self._lock = folder, threading.Lock()
        found = read_json(os.path.join(folder, "state.json"))
        self.run: int = found.get("run", 1)
        self.told: list[str] = found.get("told", [])
        self.stop: dict[str, Any] = found.get("stop") or {}
        self.reported: dict[str, dict[str, Any]] = {}  # by the runner, through its pipe
        self.boot: str = found.get("boot", "")

    @property
    def run_folder(self) -> str:
        return os.path.join(self._folder, "runs", str(self.run))

    def of_runner(self, name: str) -> dict[str, Any]:
        """begun.json, command.json or exit.json; empty before it is written."""
        return read_json(os.path.join(self.run_folder, name)) or self.reported.get(name, {})

    def is_of_this_boot(self) -> bool:
        return self.of_runner("begun.json").get("boot") == boot_id()

    def begin_again(self) -> None:
        """On a VM that is started again the command runs again, unless it succeeded or was cancelled.

        Whether it really begins is for the guard to say: see `Attempt._start`.
        """
        before, self.boot = self.boot or self.of_runner("begun.json").get("boot", ""), boot_id()
        if self.boot == before:
            return
        has_run = bool(self.of_runner("begun.json")) or "exit" in self.told
        if has_run and not self._has_succeeded() and self.stop.get("why") != "cancel":
            self.run += 1
            self.told, self.stop = [], {}
        self.save()

    def _has_succeeded(self) -> bool:
        ended = self.of_runner("exit.json")
        is_asked = self.stop.get("why") in MACHINE_ENDS
        return ended.get("reason") == "exited" and ended.get("code") == 0 and not is_asked

    def mark_told(self, kind: str) -> None:
        self.told.append(kind)
        self.save()

    def save(self) -> None:
        with self._lock:
            try:
                write_json(
                    os.path.join(self._folder, "state.json"),
                    {"run": self.run, "told": self.told, "stop": self.stop, "boot": self.boot},
                )
            except OSError as error:
                say(f"cannot write the state of the attempt: {error}")
