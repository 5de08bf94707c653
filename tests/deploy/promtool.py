"""Prometheus's promtool runs the tests of the alerts; `python -m tests.deploy.promtool` fetches it where it may."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

_KEPT = Path(__file__).resolve().parents[2] / ".cache" / "promtool"
_LONGEST_S = 300


def promtool() -> str | None:
    """COSTGUARD_TEST_PROMTOOL names one that is not on the PATH."""
    named = os.environ.get("COSTGUARD_TEST_PROMTOOL") or shutil.which("promtool")
    return named or (str(_KEPT) if _KEPT.exists() else None)


def missing() -> str:
    return (
        "No promtool is here, which alerts are tested with; install Prometheus, or name it in COSTGUARD_TEST_PROMTOOL."
    )


def main() -> int:
    """Never fails: the test that needs promtool says so itself. A package is unpacked, and nothing is installed."""
    if promtool() is None and shutil.which("apt-get") and shutil.which("dpkg-deb"):
        print("Fetching promtool for the tests (once)...", flush=True)
        _fetch()
    if promtool() is None:
        print(missing())
    return 0


def _fetch() -> None:
    folder = _KEPT.with_suffix(".part")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    download, update = ["apt-get", "-q", "download", "prometheus"], ["apt-get", "-q", "update"]
    if not _run(download, folder) and _run(update, folder):
        _run(download, folder)
    for package in folder.glob("*.deb"):
        if _run(["dpkg-deb", "-x", package.name, "unpacked"], folder):
            (folder / "unpacked/usr/bin/promtool").replace(_KEPT)
    shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str], folder: Path) -> bool:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=_LONGEST_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


if __name__ == "__main__":
    raise SystemExit(main())
