"""Acts out the README's set-up and a first job on a clean machine, and writes service/docs/first-hour.md:

`make first-hour`, or `python -m tests.first_hour --keep-environment` with what the last run installed, or `--again` to
write the page again from what the last run typed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from pathlib import Path

from tests.cli.printed import ROOT
from tests.first_hour import first_job, readme, transcript
from tests.first_hour.machine import PROJECT, Machine, Newcomer, Typed, port_to_serve_at, with_gcloud
from tests.first_hour.understood import LAUNCHER, WATCHER

from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.scenarios.scenario import build, load
from costguard_sandbox.server import running

PAGE = ROOT / "service" / "docs" / "first-hour.md"
_FOLDER = ROOT / ".cache" / "first-hour"
_RECORD, _INSTALLED = _FOLDER / "typed.json", _FOLDER / "installed.json"
_NOT_OF_THE_SOURCE = (".git", ".venv*", ".cache", "build", "dist", "*.egg-info", "__pycache__", ".*_cache")
_NEUTRAL: Mapping[str, str] = {
    r"http://127\.0\.0\.1:(?!8765)\d+": "http://cloud.example",
    r"/sign-in/[^\s.]+": "/sign-in/CODE",
    r"COSTGUARD_TOKEN=\S+": "COSTGUARD_TOKEN=TOKEN",
    r"\bcg_\w+": "TOKEN",
    r"/\S*?/first-hour-\w+/\w+/home": "/home/me",
}


def main() -> int:
    """0 where both came to the end, with what the documents promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.first_hour", description=__doc__)
    parser.add_argument("--again", action="store_true", help="write the page from the last run's record")
    parser.add_argument("--keep-environment", action="store_true", help="use what the last run installed")
    given = parser.parse_args()
    if not given.again:
        with tempfile.TemporaryDirectory(prefix="first-hour-", ignore_cleanup_errors=True) as made:
            _act(Path(made), keeps=given.keep_environment)
    _write(json.loads(_RECORD.read_text()))
    print(f"Wrote {PAGE.relative_to(ROOT)}.")
    return 0


def _act(folder: Path, *, keeps: bool) -> None:
    """Both people, each in a folder outside the checkout; what they typed is kept."""
    programs = _FOLDER / "environment" / "bin"
    watcher = Machine(folder / "watcher", [programs])
    watcher.environ |= _registry()
    if not keeps:
        _install(watcher)
    installed = Typed(**json.loads(_INSTALLED.read_text()))
    launched = first_job.launch(folder / "launcher", programs, _registry())
    watched = _watch(watcher, installed)
    record = {
        "day": str(datetime.now(UTC).date()),  # noqa: TID251 - the date of today
        "gcloud": "the real `gcloud`" if shutil.which("gcloud") else "a stand-in for `gcloud`",
        "watcher": [asdict(one) for one in watched],
        "launcher": [asdict(one) for one in launched],
    }
    _RECORD.write_text(json.dumps(record, indent=1))


def _install(machine: Machine) -> None:
    """The README's command, with a copy of the checkout for the source's address, into an empty environment."""
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(parents=True)
    venv.create(_FOLDER / "environment", with_pip=True, symlinks=True)
    source = _FOLDER / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*_NOT_OF_THE_SOURCE))
    installed = machine.type(f"pip install --quiet {shlex.quote(str(source))}")
    assert installed.code == 0, installed.output
    _show(installed)
    _INSTALLED.write_text(json.dumps(asdict(replace(installed, command=readme.INSTALL))))


def _registry() -> dict[str, str]:
    """Returns how this computer reaches its package registry, which every newcomer's computer can."""
    names = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
    return {name: value for name, value in os.environ.items() if name.upper().startswith(names)}


def _watch(machine: Machine, installed: Typed) -> Sequence[Typed]:
    """The README's way: installed, set up and watching, with one right taken away at the end."""
    typed = [installed]

    def note(one: Typed) -> None:
        _show(one)
        typed.append(one)

    world = build(load(str(readme.scenario())), ScaledClock())
    world.rights.begin(PROJECT)
    with running(world) as url:
        machine.cloud = url
        with_gcloud(machine, machine.folder.parent, real=True)
        newcomer = Newcomer(machine, port_to_serve_at(8765))
        machine.begin(after_s=installed.took_s)
        readme.follow(newcomer, note)
        readme.check_guarded(machine, world.rights.new[PROJECT])
        readme.check_a_permission_taken_away(newcomer, world.rights.new[PROJECT])
    needed = 1 + [one.command for one in typed].index(readme.SERVE)
    assert needed <= readme.MOST_COMMANDS
    print(f"Guarded in shadow mode after {needed} commands, with not one changing call.")
    return typed


def _show(typed: Typed) -> None:
    print(f"{typed.took_s:6.1f} s  {typed.command}", flush=True)


def _write(record: Mapping[str, Sequence[Mapping[str, object]]]) -> None:
    typed = {who: [Typed(**one) for one in record[who]] for who in ("watcher", "launcher")}  # type: ignore[arg-type]
    took = {who: ones[-1].at_s + ones[-1].took_s - ones[0].at_s for who, ones in typed.items()}
    watcher, launcher = (
        transcript.section_of([transcript.Step(one, _said(words, one)) for one in typed[who]], _NEUTRAL)
        for who, words in (("watcher", WATCHER), ("launcher", LAUNCHER))
    )
    day = date.fromisoformat(str(record["day"]))
    PAGE.write_text(transcript.page(watcher, launcher, day, took, str(record["gcloud"])).rstrip() + "\n")


def _said(words: Mapping[str, str], typed: Typed) -> str:
    """Returns what was understood at a command, by how it begins. Each command needs its words."""
    (said,) = [said for begins, said in words.items() if typed.command.startswith(begins)]
    return said


if __name__ == "__main__":
    sys.exit(main())
