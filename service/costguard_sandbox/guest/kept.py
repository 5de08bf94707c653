"""Containers that ended and were not removed: their state, as `docker container inspect` shows it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NEVER = "0001-01-01T00:00:00Z"


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")  # noqa: TID251  a program of the VM's own


def ended(code: int, started_at: str, error: str = "") -> dict[str, Any]:
    """One whose command could not be executed is `created` for ever, with zero for a time."""
    never = started_at == NEVER
    return {
        "Status": "created" if never else "exited",
        "Running": False,
        "Paused": False,
        "Restarting": False,
        "OOMKilled": False,
        "Dead": False,
        "Pid": 0,
        "ExitCode": code,
        "Error": error,
        "StartedAt": started_at,
        "FinishedAt": NEVER if never else now(),
    }


class Kept:
    """Of one VM."""

    def __init__(self, disk: Path) -> None:
        self._folder = disk / "var/lib/docker/containers"

    def keep(self, name: str, state: dict[str, Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / name).write_text(json.dumps(state))

    def state(self, name: str) -> dict[str, Any] | None:
        try:
            found = json.loads((self._folder / name).read_text())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def remove(self, name: str) -> bool:
        """False: there is none."""
        try:
            (self._folder / name).unlink()
        except FileNotFoundError:
            return False
        return True
