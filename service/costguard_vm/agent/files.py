"""Reading and writing on the VM's disk, whole files or nothing; and the agent's log lines.

Where the disk is full, a file is kept in memory instead, below COSTGUARD_VOLATILE, until it can be written again: the
exit code of a command that filled the disk must be known too.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import IO, Any

# Seconds of the fleet's clock in one of the VM's: 1, but in a simulated cloud whose clock runs faster since `_EPOCH`.
PACE = float(os.environ.get("COSTGUARD_PACE") or 1.0)
_EPOCH = 1767225600.0  # 2026-01-01


def utc() -> str:
    return utc_of(time.time())


def utc_of(at: float, pace: float = PACE) -> str:
    """A moment of the VM's clock, in seconds, by the fleet's."""
    moment = at if pace == 1 else _EPOCH + (at - _EPOCH) * pace
    return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="milliseconds")


def own_time(written: str, pace: float = PACE) -> float:
    """The moment of the VM's clock, in seconds, of what `utc` gave."""
    moment = datetime.fromisoformat(written).timestamp()
    return moment if pace == 1 else _EPOCH + (moment - _EPOCH) / pace


def fleet_seconds() -> float:
    """Reads a clock that never jumps, in the fleet's seconds."""
    return time.monotonic() * PACE


def say(message: str) -> None:
    with contextlib.suppress(OSError):  # where it goes to a file, the disk may be full
        sys.stderr.write(f"{utc()} costguard agent: {message}\n")
        sys.stderr.flush()


def make_volatile() -> str:
    """The agent's folder in memory."""
    folder = os.environ.get("COSTGUARD_VOLATILE", "/run/costguard")
    os.makedirs(folder, exist_ok=True)
    return folder


def spare(path: str) -> str:
    """The place in memory of a file that did not fit on the disk."""
    return os.path.join(os.environ.get("COSTGUARD_VOLATILE", "/run/costguard"), "spare", path.lstrip("/"))


def read(path: str) -> str:
    """The whole text, or nothing where there is no such file."""
    for place in (spare(path), path):  # one in memory is the newer one
        with contextlib.suppress(OSError), open(place, encoding="utf-8", errors="replace") as file:
            return file.read()
    return ""


def read_json(path: str) -> dict[str, Any]:
    try:
        document = json.loads(read(path) or "{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def write(path: str, content: bytes) -> None:
    """Writes all or nothing, also when the power fails. Raises OSError where neither disk nor memory takes it."""
    try:
        _write(path, content)
    except OSError as full:
        try:
            os.makedirs(os.path.dirname(spare(path)), exist_ok=True)
            _write(spare(path), content)
        except OSError:
            raise full from None
    else:
        with contextlib.suppress(OSError):
            os.unlink(spare(path))


def _write(path: str, content: bytes) -> None:
    new = path + ".new"
    try:
        with open(new, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new)  # part of it would fill what little space is left
        raise


def remove(path: str) -> None:
    for place in (path, spare(path)):
        with contextlib.suppress(OSError):
            os.unlink(place)


def names_in(folder: str) -> list[str]:
    """The names of all files in a folder, on the disk and in memory."""
    names: set[str] = set()
    for place in (folder, spare(folder)):
        with contextlib.suppress(OSError):
            names.update(os.listdir(place))
    return sorted(names)


def make_folder(path: str) -> None:
    """Makes a folder. Where the disk is full, it is made in memory with the first file in it."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        say(f"no folder {path}: {error}")


def write_json(path: str, document: Mapping[str, Any]) -> None:
    write(path, json.dumps(document).encode())


def lock(path: str) -> int | None:
    """A lock's descriptor; None where another process holds it. It is held until every copy is closed."""
    in_memory = spare(path)
    if os.path.exists(in_memory):
        path = in_memory
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        os.makedirs(os.path.dirname(in_memory), exist_ok=True)
        descriptor = os.open(in_memory, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def write_through(pipe: IO[bytes] | None, document: Mapping[str, Any]) -> None:
    """Writes to a pipe whose reader waits for its end."""
    assert pipe is not None
    with pipe:
        pipe.write(json.dumps(document).encode())


def boot_id() -> str:
    """The kernel's id of this boot, or COSTGUARD_BOOT_ID's: simulated VMs share a kernel."""
    return os.environ.get("COSTGUARD_BOOT_ID") or read("/proc/sys/kernel/random/boot_id").strip()
