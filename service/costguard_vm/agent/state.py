"""The state that an agent leaves for a later one on the same disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from .files import boot_id, read_json, say, write_json
from .settings import FLAT

VM_ENDS = ("preemption", "maintenance", "shutdown")  # these do not come from the guard


class SavedState:
    """state.json, which an agent leaves for a later one: the run, the reported events, and the requested stop.

    The runner's own files are in the folder of the run.
    """

    def __init__(self, folder: str) -> None:
        self._folder, self._lock = folder, threading.Lock()
        saved = read_json(os.path.join(folder, "state.json"))
        self.run: int = saved.get("run", 1)
        self.sent: list[str] = saved.get("told", [])
        self.stop: dict[str, Any] = saved.get("stop") or {}
        self.reported: dict[str, dict[str, Any]] = {}  # by the runner, through its pipe
        self.boot: str = saved.get("boot", "")
        self.drill: dict[str, Any] = saved.get("drill") or {}  # the last one: see drill.py
        self.drilled: int = saved.get("drilled", 0)  # how many runs began because a drill had ended the one before
        self.drilled_boot: str = saved.get("drilled_boot", "")
        self.go: dict[str, Any] = saved.get("go") or {}  # what the guard let a VM that stood by begin with
        self.gang: dict[str, Any] = saved.get("gang") or {}  # the rounds of a job of several VMs: see gang/rounds.py

    @property
    def run_folder(self) -> str:
        return os.path.join(self._folder, "runs", str(self.run))

    @property
    def known_run(self) -> int:
        """The run's number to the guard, to which what a drill starts again is the same run."""
        return self.run - self.drilled

    def run_again(self, drill: Mapping[str, Any]) -> None:
        """The command ended because of a drill: notes the next run and how the drill stands at once."""
        self.drill, self.reported = dict(drill), {}
        self.run, self.drilled, self.drilled_boot = self.run + 1, self.drilled + 1, boot_id()
        self.save()

    def of_runner(self, name: str) -> dict[str, Any]:
        """begun.json, command.json or exit.json; empty before it is written."""
        return read_json(os.path.join(self.run_folder, name)) or self.reported.get(name, {})

    def is_of_this_boot(self) -> bool:
        return self.of_runner("begun.json").get("boot") == boot_id()

    def begin_again(self) -> None:
        """Prepares another run on a restarted VM, unless the command succeeded or was cancelled.

        The guard decides whether it really begins: see `AgentAttempt._start`.
        """
        before, self.boot = self.boot or self.of_runner("begun.json").get("boot", ""), boot_id()
        if self.boot == before:
            return
        has_run = bool(self.of_runner("begun.json")) or "exit" in self.sent
        if has_run and not self._has_succeeded() and self.stop.get("why") not in ("cancel", FLAT):
            self.run += 1
            self.sent, self.stop = [], {}
            if self.gang:  # the others cannot go on with that round either
                number = self.gang.get("round", 1) + 1
                self.gang = {"round": number, "wanted": max(number, self.gang.get("wanted", 0))}
        self.save()

    def _has_succeeded(self) -> bool:
        ended = self.of_runner("exit.json")
        was_stopped = self.stop.get("why") in VM_ENDS or self.drill.get("phase") == "stopping"
        return ended.get("reason") == "exited" and ended.get("code") == 0 and not was_stopped

    def let_begin(self, go: Mapping[str, Any]) -> None:
        """The guard lets the command of a VM that stood by begin. The first word counts."""
        if not self.go:
            resume_from, words = go.get("resume_from"), go.get("arguments")
            self.go = {
                "resume_from": resume_from if isinstance(resume_from, str) else "",
                "step": go.get("step"),
                "arguments": [word for word in words if isinstance(word, str)] if isinstance(words, list) else [],
            }
            self.save()

    def mark_reported(self, kind: str) -> None:
        self.sent.append(kind)
        self.save()

    def save(self) -> None:
        with self._lock:
            try:
                write_json(
                    os.path.join(self._folder, "state.json"),
                    {
                        "run": self.run,
                        "told": self.sent,
                        "stop": self.stop,
                        "boot": self.boot,
                        "drill": self.drill,
                        "drilled": self.drilled,
                        "drilled_boot": self.drilled_boot,
                        "go": self.go,
                        "gang": self.gang,
                    },
                )
            except OSError as error:
                say(f"cannot write the state of the attempt: {error}")
