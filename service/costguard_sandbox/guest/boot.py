"""A boot of a VM: its programs, its init process and the thread that waits for the end."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from costguard_sandbox.gce.vm import VM
from costguard_sandbox.guest.init_process import SHUTDOWN, STARTUP

_SERVICE = Path(__file__).parents[2]
_DOCKER_ANSWERS_S = 10


def program(module: str, *words: str) -> list[str]:
    """The command line of a program in this package, run by this Python without its settings and packages."""
    code = f"import sys; sys.path.insert(0, {str(_SERVICE)!r}); from {module} import main; sys.exit(main())"
    return [sys.executable, "-I", "-S", "-c", code, *words]


def has_docker(path: str) -> bool:
    """Says whether a Docker daemon answers; a client alone is not enough."""
    client = shutil.which("docker", path=path)
    if client is None:
        return False
    try:
        command = [client, "version", "--format", "{{.Server.Version}}"]
        return subprocess.run(command, capture_output=True, timeout=_DOCKER_ANSWERS_S, check=False).returncode == 0  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return False


def put_tools(folder: Path, vm: VM, disk: Path, path: str, *, with_docker: bool) -> None:
    """Write into `folder` stand-ins for the programs that a VM's image has and `path` lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    if with_docker:
        _put(folder / "docker", program("costguard_sandbox.guest.docker", str(disk)))
    if vm.shape.gpu_count and shutil.which("nvidia-smi", path=path) is None:
        gpus = str(vm.id), vm.shape.gpu_type, str(vm.shape.gpu_count)
        _put(folder / "nvidia-smi", program("costguard_sandbox.guest.nvidia_smi", *gpus))
    if shutil.which("python3", path=path) is None:
        _put(folder / "python3", [sys.executable])


def python_of(disk: Path) -> dict[str, str]:
    """Returns the variables by which what pip installs in a VM stays on its disk, and not with the simulated cloud.

    PIP_PREFIX is pip's own. Python reads `.pth` files, which editable installations need, in folders of `site` alone,
    so that a sitecustomize names the folder.
    """
    prefix, first = disk / "usr/local", disk / "usr/local/share/python"
    first.mkdir(parents=True, exist_ok=True)
    packages = f"{str(prefix / 'lib')!r} + '/python%d.%d/site-packages' % sys.version_info[:2]"
    (first / "sitecustomize.py").write_text(f"import site, sys\nsite.addsitedir({packages})\n")
    return {"PIP_PREFIX": str(prefix), "PYTHONPATH": str(first)}


def _put(place: Path, command: list[str]) -> None:
    place.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    place.chmod(0o755)


@dataclass(frozen=True, slots=True)
class BootOrder:
    """The parameters of a boot. `prepare` runs in the guest's thread, once the directory of its disk exists."""

    disk: Path
    serial: Path
    script: str
    boot: timedelta
    environment: Mapping[str, str]
    prepare: Callable[[], None]


class Guest:
    """The processes of one boot. Callers hold the cloud's lock; the thread does not."""

    def __init__(self, order: BootOrder, gone: Callable[[Guest], None]) -> None:
        self._order, self._gone = order, gone
        for folder in ("root", "tmp"):
            (order.disk / folder).mkdir(parents=True, exist_ok=True)
        (order.disk / SHUTDOWN).unlink(missing_ok=True)
        _write_script(order.disk / STARTUP, order.script)
        self._commands_out, self._commands_in = os.pipe()  # the pipe keeps commands until the init process reads
        self._acts: list[Callable[[], None]] = []
        self.is_suspended = False
        self._thread = threading.Thread(target=self._run, name=f"vm-{order.disk.name}", daemon=True)
        self._thread.start()

    def end(self, grace: timedelta, shutdown_script: str) -> None:
        if shutdown_script:
            _write_script(self._order.disk / SHUTDOWN, shutdown_script)
        self._send(f"end {grace.total_seconds()}")

    def cut(self) -> None:
        self.is_suspended = False
        self._send("cut")

    def suspend(self) -> None:
        self.is_suspended = True
        self._send("suspend")

    def resume(self) -> None:
        self.is_suspended = False
        self._send("resume")

    def when_gone(self, act: Callable[[], None]) -> None:
        self._acts.append(act)

    def act(self) -> None:
        while self._acts:
            self._acts.pop(0)()

    def join(self) -> None:
        self._thread.join()

    def _send(self, command: str) -> None:
        with suppress(BrokenPipeError):  # it has just ended
            os.write(self._commands_in, f"{command}\n".encode())

    def _run(self) -> None:
        try:
            self._boot()
        finally:
            os.close(self._commands_out)
            self._gone(self)
            os.close(self._commands_in)

    def _boot(self) -> None:
        order = self._order
        order.prepare()
        with order.serial.open("ab") as serial:
            init = subprocess.Popen(  # noqa: S603  our own program
                program("costguard_sandbox.guest.init_process", str(order.boot.total_seconds())),
                stdin=self._commands_out,
                stdout=serial,
                stderr=serial,
                cwd=order.disk,
                env=dict(order.environment),
                start_new_session=True,
            )
        init.wait()


def _write_script(place: Path, script: str) -> None:
    place.write_text(script)
    place.chmod(0o700)
