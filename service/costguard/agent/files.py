"""Reading and writing on the VM's disk: whole files or nothing, and what is said aloud."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import IO, Any


def utc() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def say(message: str) -> None:
    sys.stderr.write(f"{utc()} costguard agent: {message}\n")
    sys.stderr.flush()


def read(path: str) -> str:
    """The whole text, or nothing where there is no such file."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def read_json(path: str) -> dict[str, Any]:
    try:
        found = json.loads(read(path) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def write(path: str, content: bytes) -> None:
    """All or nothing, also when the power goes."""
    with open(path + ".new", "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def write_json(path: str, document: Mapping[str, Any]) -> None:
    write(path, json.dumps(document).encode())


def lock(path: str) -> int | None:
    """Nothing when another process holds it. It is held until every copy of the descriptor is closed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def write_through(pipe: IO[bytes] | None, document: Mapping[str, Any]) -> None:
    """Into a pipe whose reader waits for its end."""
    assert pipe is not None
    with pipe:
        pipe.write(json.dumps(document).encode())


def boot_id() -> str:
    """The kernel's, unless somebody says another: VMs that share a kernel boot while it goes on."""
    return os.environ.get("COSTGUARD_BOOT_ID") or read("/proc/sys/kernel/random/boot_id").strip()
