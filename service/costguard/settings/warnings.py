"""What is right in the settings, and may still not be what was meant: files that others can read, doubled names."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from costguard.settings import environment
from costguard.settings.sections import Settings


def warnings(settings: Settings, where: Path, environ: Mapping[str, str]) -> list[str]:
    """One sentence each. `where` is the settings file."""
    return [*_files(where, environ), *_doubles(settings)]


def _files(where: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Windows has no modes: there a file has the rights of its folder."""
    if os.name != "posix":
        return
    mode = _mode(where)
    if mode & stat.S_IWOTH:
        mend = f"chmod o-w {shlex.quote(str(where))}"
        yield f"Anybody on this machine can change {where} (mode {mode:04o}), and make themselves admins: run `{mend}`."
    for variable in sorted(environ):
        if not (variable.startswith("COSTGUARD_") and variable.endswith(environment.FILE)):
            continue
        file = Path(environ[variable])
        if (mode := _mode(file)) & (stat.S_IRWXG | stat.S_IRWXO):
            mend = f"chmod 600 {shlex.quote(str(file))}"
            yield f"{variable}: other users can read the secret in {file} (mode {mode:04o}): run `{mend}`."


def _mode(file: Path) -> int:
    """0 where there is none: another check says so."""
    try:
        return stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return 0


def _doubles(settings: Settings) -> Iterator[str]:
    lists = {name: getattr(settings.access, name) for name in ("viewers", "operators", "admins")}
    for name, entries in lists.items():
        for entry in sorted({entry for entry in entries if entries.count(entry) > 1}):
            yield f"access.{name}: {entry} stands there more than once."
    for low, high in (("viewers", "operators"), ("viewers", "admins"), ("operators", "admins")):
        for entry in sorted({*lists[low]} & {*lists[high]}):
            yield f"access.{low}: {entry} stands under access.{high} as well, and that counts: leave it in one of them."
