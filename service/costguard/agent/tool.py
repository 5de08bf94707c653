"""Finds rclone on this VM, or fetches the one that the guard serves and checks its SHA-256."""

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

from .calls import HttpCalls, Trouble, patiently
from .failures import TransferFailed
from .files import make_folder, say
from .settings import AttemptSettings

OLDEST = (1, 70)  # the first that has --max-buffer-memory
TRIES = 6
INSTALL = "install rclone 1.70 or later in the VM's boot image"


class RcloneFinder:
    """`home` is the agent's folder, where the fetched tool stays for later runs on this disk."""

    def __init__(self, settings: AttemptSettings, token: str, home: str) -> None:
        self._settings, self._token, self._home = settings, token, home
        self._lock, self._path = threading.Lock(), ""

    def path(self, wait: Callable[[float], object]) -> str:
        """The path of rclone. Raises TransferFailed where none fits this VM, or the guard cannot be reached."""
        with self._lock:
            if not self._path:
                self._path = _installed() or self._fetched(wait)
            return self._path

    def _fetched(self, wait: Callable[[float], object]) -> str:
        wanted, machine = self._settings.rclone_sha256, self._settings.rclone_machine
        here = f"{sys.platform}-{platform.machine()}"
        if not wanted:
            raise TransferFailed(f"this VM has no rclone, and the guard has none to serve: {INSTALL}", True)
        if machine != here:
            raise TransferFailed(f"the guard serves rclone for {machine}, and this VM is {here}: {INSTALL}", True)
        folder = os.path.join(self._home, "tools")
        path = os.path.join(folder, f"rclone-{wanted[:16]}")
        if not (os.path.exists(path) and _sum(path) == wanted):
            make_folder(folder)
            try:
                patiently(lambda: self._fetch(path, wanted), wait, TRIES, self._settings.retry_s)
            except (Trouble, OSError) as problem:
                raise TransferFailed(f"rclone cannot be fetched from the guard: {problem}") from None
        return path

    def _fetch(self, path: str, wanted: str) -> None:
        settings, new = self._settings, f"{path}.new"
        url = f"{settings.guard.rstrip('/')}/api/v1/attempts/{settings.attempt}/rclone"
        HttpCalls(settings.guard_ca).save(url, {"Authorization": f"Bearer {self._token}"}, new)
        if _sum(new) != wanted:
            os.unlink(new)
            raise Trouble(f"{url} answered with another file than the attempt's settings name")
        os.chmod(new, 0o755)  # noqa: S103  a program
        os.replace(new, path)


def _installed() -> str:
    """The VM's own rclone where it is new enough; else nothing."""
    path = shutil.which("rclone")
    if not path:
        return ""
    try:
        done = subprocess.run([path, "version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as problem:
        say(f"{path} cannot be used: {problem}")
        return ""
    version = re.match(rb"rclone v(\d+)\.(\d+)", done.stdout)
    if version and (int(version.group(1)), int(version.group(2))) >= OLDEST:
        return path
    say(f"{path} is not used: {done.stdout[:40]!r}, and 1.70 is needed")
    return ""


def _sum(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()
