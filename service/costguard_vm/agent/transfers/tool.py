"""Finds a tool on this VM, or fetches the one that the guard serves and checks its SHA-256."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import NamedTuple

from costguard_vm.agent.calls import HttpCalls
from costguard_vm.agent.failures import TransferFailed, Trouble, patiently
from costguard_vm.agent.files import make_folder, say
from costguard_vm.agent.settings import AttemptSettings

TRIES = 6


class Wanted(NamedTuple):
    """A tool: what the guard serves, by the attempt's settings, and how to tell whether the VM's own is new enough."""

    name: str
    sha256: str
    machine: str
    version: bytes  # pattern of what `NAME WORD` prints
    word: str
    oldest: tuple[int, int]


class ToolFinder:
    """`home` is the agent's folder, where the fetched tool stays for later runs on this disk."""

    def __init__(self, settings: AttemptSettings, token: str, home: str, wanted: Wanted) -> None:
        self._settings, self._token, self._home, self._wanted = settings, token, home, wanted
        self._lock, self._path = threading.Lock(), ""

    @classmethod
    def rclone(cls, settings: AttemptSettings, token: str, home: str) -> ToolFinder:
        """1.70 is the first that has --max-buffer-memory."""
        served = settings.rclone_sha256, settings.rclone_machine
        return cls(settings, token, home, Wanted("rclone", *served, rb"rclone v(\d+)\.(\d+)", "version", (1, 70)))

    @classmethod
    def py_spy(cls, settings: AttemptSettings, token: str, home: str) -> ToolFinder:
        """0.4 is the first that reads Python 3.12 and 3.13 (its release notes)."""
        served = settings.py_spy_sha256, settings.py_spy_machine
        return cls(settings, token, home, Wanted("py-spy", *served, rb"py-spy (\d+)\.(\d+)", "--version", (0, 4)))

    def path(self, wait: Callable[[float], object]) -> str:
        """Returns its path. Raises TransferFailed where none fits this VM, or the guard cannot be reached."""
        with self._lock:
            if not self._path:
                self._path = _installed(self._wanted) or self._fetched(wait)
            return self._path

    def _fetched(self, wait: Callable[[float], object]) -> str:
        name, wanted, machine = self._wanted.name, self._wanted.sha256, self._wanted.machine
        here = f"{sys.platform}-{platform.machine()}"
        install = "install {} {}.{} or later in the VM's boot image".format(name, *self._wanted.oldest)
        if not wanted:
            raise TransferFailed(f"this VM has no {name}, and the guard has none to serve: {install}", True)
        if machine != here:
            raise TransferFailed(f"the guard serves {name} for {machine}, and this VM is {here}: {install}", True)
        folder = os.path.join(self._home, "tools")
        path = os.path.join(folder, f"{name}-{wanted[:16]}")
        if not (os.path.exists(path) and _sum(path) == wanted):
            make_folder(folder)
            try:
                patiently(lambda: self._fetch(path, wanted), wait, TRIES, self._settings.retry_s)
            except (Trouble, OSError) as problem:
                raise TransferFailed(f"{name} cannot be fetched from the guard: {problem}") from None
        return path

    def _fetch(self, path: str, wanted: str) -> None:
        settings, new = self._settings, f"{path}.new"
        url = f"{settings.guard.rstrip('/')}/api/v1/attempts/{settings.attempt}/{self._wanted.name}"
        HttpCalls(settings.guard_ca).save(url, {"Authorization": f"Bearer {self._token}"}, new)
        if _sum(new) != wanted:
            os.unlink(new)
            raise Trouble(f"{url} answered with another file than the attempt's settings name")
        os.chmod(new, 0o755)  # noqa: S103  a program
        os.replace(new, path)


def _installed(wanted: Wanted) -> str:
    """The VM's own where it is new enough; else nothing."""
    path = shutil.which(wanted.name)
    if not path:
        return ""
    try:
        done = subprocess.run([path, wanted.word], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as problem:
        say(f"{path} cannot be used: {problem}")
        return ""
    version = re.match(wanted.version, done.stdout)
    if version and (int(version.group(1)), int(version.group(2))) >= wanted.oldest:
        return path
    say("{} is not used: {!r}, and {}.{} is needed".format(path, done.stdout[:40], *wanted.oldest))
    return ""


def _sum(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()
