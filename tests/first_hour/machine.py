"""A clean machine: a HOME of its own, no variables, no credentials, and the simulated cloud in the place of Google."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from tests.cli.lines import reading
from tests.cli.typed import Typist
from tests.ports import free_port
from tests.sandbox.guest.served_vms import PATIENCE_S

PROJECT, PERSON = "acme-training", "dana@example.com"
STAND_IN = Path(__file__).with_name("gcloud_stand_in.py")
SIGN_IN = "gcloud auth application-default login --impersonate-service-account "
PORT = 8765  # of the settings' default
_LONGEST_S = 1800.0
_TO_THE_CLOUD = ("COMPUTE", "IAM", "CLOUDRESOURCEMANAGER", "SERVICEUSAGE")


@dataclass(frozen=True, slots=True)
class Typed:
    """A command as it was typed, and its answer. `at_s` counts from the first one's start."""

    command: str
    output: str
    code: int
    at_s: float
    took_s: float


class Machine:
    """Types commands into a shell, or has a typist type those of Costguard, who is quicker.

    `programs` come before the system's own in PATH.
    """

    def __init__(self, folder: Path, programs: Sequence[Path], cloud: str = "", typist: Typist | None = None) -> None:
        self._typist = typist
        self.folder = folder / "home"
        self.folder.mkdir(parents=True)
        self.cloud = cloud
        path = os.pathsep.join((*map(str, programs), "/usr/local/bin", "/usr/bin", "/bin"))
        self.environ: dict[str, str] = {
            "HOME": str(self.folder),
            "PATH": path,
            "LANG": "C.UTF-8",
            "COLUMNS": "120",
            **({"TMPDIR": tmp} if (tmp := os.environ.get("TMPDIR")) else {}),
        }
        self._began = time.monotonic()

    def begin(self, after_s: float) -> None:
        """Counts moments from this long ago."""
        self._began = time.monotonic() - after_s

    def type(self, command: str) -> Typed:
        """Runs it to its end, with nothing to read from."""
        at = time.monotonic()
        if self._typist is not None and command.startswith("costguard ") and "|" not in command:
            quick = self._typist.type(shlex.split(command)[1:], self.environ, self.folder)
            return self._typed(command, quick.stdout + quick.stderr, quick.returncode, at)
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
        return self._typed(command, done.stdout, done.returncode, at)

    @contextmanager
    def keeping(self, command: str, until: str) -> Iterator[Typed]:
        """A command that goes on, in a terminal of its own; Ctrl-C ends it with the block."""
        at = time.monotonic()
        with (
            subprocess.Popen(
                shlex.split(command),
                cwd=self.folder,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process,
            reading(process, signal.SIGINT) as lines,
        ):
            lines.until(until)
            yield self._typed(command, "".join(lines.seen), 0, at)

    def now(self, command: str) -> Typed:
        """A command that the shell itself does, or Google: it prints nothing."""
        return Typed(command, "", 0, time.monotonic() - self._began, 0.0)

    def _typed(self, command: str, output: str, code: int, at: float) -> Typed:
        return Typed(command, output, code, at - self._began, time.monotonic() - at)


class Newcomer:
    """Follows README.md on a machine, word by word. The simulated cloud stands for Google, `port` for 8765."""

    def __init__(self, machine: Machine, port: int = PORT) -> None:
        self.machine = machine
        self._port = port
        self._special: Mapping[str, Callable[[str], Typed]] = {SIGN_IN: self._sign_in, "costguard init": self._init}

    def does(self, command: str) -> Typed:
        """Types a printed command with PROJECT filled in."""
        filled = re.sub(r"\bPROJECT\b", PROJECT, command)
        for begins, how in self._special.items():
            if filled.startswith(begins):
                return how(filled)
        return self.machine.type(filled)

    def _init(self, command: str) -> Typed:
        typed = self.machine.type(f"{command} --endpoint {self.machine.cloud}")
        if self._port != PORT:
            with (self.machine.folder / "costguard.toml").open("a") as file:
                file.write(f'\n[server]\nlisten = "127.0.0.1:{self._port}"\n')
        return typed

    def _sign_in(self, command: str) -> Typed:
        """Google's sign-in needs Google and a browser: from here on the simulated cloud takes us for the account."""
        answer = tell(self.machine.cloud, "/sandbox/rights", {"account": command.removeprefix(SIGN_IN)})
        assert answer["account"] == command.removeprefix(SIGN_IN)
        return self.machine.now(command)


def tell(cloud: str, path: str, body: Mapping[str, object]) -> dict[str, object]:
    """Posts to the simulated cloud's own routes."""
    request = Request(cloud + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=PATIENCE_S) as answer:
        read: dict[str, object] = json.load(answer)
        return read


def with_gcloud(machine: Machine, folder: Path, *, real: bool) -> None:
    """Gives the machine a gcloud that knows no way but to the simulated cloud, and who is signed in."""
    machine.environ |= {f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api}": f"{machine.cloud}/" for api in _TO_THE_CLOUD}
    machine.environ |= {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{machine.cloud}/compute/v1/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_ACCOUNT": PERSON,
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "NO_PROXY": "127.0.0.1",
    }
    programs = folder / "programs"
    programs.mkdir()
    gcloud = shutil.which("gcloud") if real else None
    words = [gcloud] if gcloud else [sys.executable, str(STAND_IN)]
    script = programs / "gcloud"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    script.chmod(0o755)
    machine.environ["PATH"] = f"{programs}{os.pathsep}{machine.environ['PATH']}"


def port_to_serve_at(wanted: int) -> int:
    """Returns the wanted port where it is free, else any that is."""
    try:
        with socket.create_server(("127.0.0.1", wanted)):
            return wanted
    except OSError:
        return free_port()
