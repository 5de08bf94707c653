"""`docker` inside a VM that has none: a container is a local process with an environment of its own.

As in Docker: `run`, `kill` and `login`, signals passed on, exit codes, names, and that all of a container ends with its
first process. Not so: there are no images, so a command runs with the programs of this machine; nor has a container
files of its own, so a path under a volume's place in it is rewritten, in words and variables, to where that really is.
A volume's source is a path of the VM: it lies below the VM's directory.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from costguard_sandbox.guest.container import Container, Failed, read_run
from costguard_sandbox.guest.processes import DEV_NULL, Process, Signals, adopt_orphans, descendants, look, reap, send

_FAILED, _NOT_EXECUTABLE, _NOT_FOUND = 125, 126, 127
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_KILLS_EVERY_S = 0.05


def run(words: Sequence[str], disk: Path, environment: Mapping[str, str]) -> int:
    """Holds the container until its first process ends; ends what is left of it then."""
    wanted = read_run(words, disk, environment)
    name = wanted.name or f"container-{os.getpid()}"
    state = _state(disk, name)
    if holder := _holder(state):
        raise Failed(f'Conflict. The container name "/{name}" is already in use by process {holder.pid}.')
    own_files = state.with_name(f"{name}.files")
    adopt_orphans()
    signals = Signals(signal.SIGCHLD, *_PASSED_ON)
    try:
        first = _start(wanted, own_files, {"PATH": environment["PATH"], "HOSTNAME": name})
        state.write_text(json.dumps(look(first)))
        return _hold(first, signals)
    except PermissionError as error:
        return _say(f"exec: {wanted.command[0]!r}: {error.strerror}", _NOT_EXECUTABLE)
    except OSError as error:
        return _say(f"exec: {wanted.command[0]!r}: {error.strerror}", _NOT_FOUND)
    finally:
        state.unlink(missing_ok=True)
        shutil.rmtree(own_files, ignore_errors=True)


def _start(wanted: Container, own_files: Path, surroundings: dict[str, str]) -> int:
    home = own_files / "root"
    workdir = wanted.place_of_workdir(own_files)
    for folder in (home, workdir, *wanted.volumes.values()):
        folder.mkdir(parents=True, exist_ok=True)
    os.chdir(workdir)
    command = [wanted.rewritten(word) for word in wanted.command]
    passed = {name: wanted.rewritten(value) for name, value in wanted.environment.items()}
    variables = {**surroundings, "HOME": str(home), **passed}
    return os.posix_spawnp(command[0], command, variables, file_actions=DEV_NULL, setsid=True)


def _hold(first: int, signals: Signals) -> int:
    code: int | None = None
    while True:
        ended, has_children = reap()
        code = ended.get(first, code)
        if code is not None and not has_children:
            return code if code >= 0 else 128 - code
        if code is not None:
            send(descendants(os.getpid()), signal.SIGKILL)
        came, _ = signals.wait(None if code is None else _KILLS_EVERY_S)
        for number in came:
            if code is None and number != signal.SIGCHLD:
                os.kill(first, number)


def kill(words: Sequence[str], disk: Path) -> int:
    """`kill [--signal SIGNAL] NAME...`, also where whoever held the container is gone."""
    left, number, code = list(words), int(signal.SIGKILL), 0
    if left[:1] in (["--signal"], ["-s"]) and len(left) > 1:
        wanted = left[1].upper()
        number = int(wanted) if wanted.isdecimal() else signal.Signals[f"SIG{wanted.removeprefix('SIG')}"]
        left = left[2:]
    for name in left:
        first = _holder(_state(disk, name))
        if first is None:
            code = _say(f"Error response from daemon: No such container: {name}", 1)
            continue
        send([first, *(descendants(first.pid) if number == signal.SIGKILL else ())], number)
        sys.stdout.write(f"{name}\n")
    return code


def _state(disk: Path, name: str) -> Path:
    folder = disk / "run" / "containers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def _holder(state: Path) -> Process | None:
    """The container's first process, if it lives; a VM that lost its power leaves the names of dead ones."""
    try:
        noted = Process(*json.loads(state.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    living = look(noted.pid)
    return living if living is not None and living.key == noted.key else None


def _say(text: str, code: int) -> int:
    sys.stderr.write(f"docker: {text}\n")
    return code


def main() -> int:
    """`docker DISK [--config FOLDER] COMMAND ...`"""
    disk, words = Path(sys.argv[1]), sys.argv[2:]
    if words[:1] == ["--config"]:
        words = words[2:]
    try:
        if words[:1] == ["run"]:
            return run(words[1:], disk, os.environ)
        if words[:1] == ["kill"]:
            return kill(words[1:], disk)
    except Failed as failure:
        return _say(str(failure), _FAILED)
    if words[:1] == ["login"]:
        sys.stdout.write("Login Succeeded\n")
        return 0
    return _say(f"the simulated docker has run, kill and login, not {' '.join(words[:1]) or 'nothing'}", 1)
