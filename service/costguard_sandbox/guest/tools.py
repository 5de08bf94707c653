"""The programs that a VM's image would bring: where this machine lacks one, a stand-in comes first in the VM's PATH."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from costguard_sandbox.gce.vm import VM

_SERVICE = Path(__file__).parents[2]
_DOCKER_ANSWERS_S = 10


def program(module: str, *words: str) -> list[str]:
    """How one of this folder's programs is run: by this Python, with none of its settings and packages."""
    code = f"import sys; sys.path.insert(0, {str(_SERVICE)!r}); from {module} import main; sys.exit(main())"
    return [sys.executable, "-I", "-S", "-c", code, *words]


def has_docker(path: str) -> bool:
    """A client without a daemon that answers is none."""
    client = shutil.which("docker", path=path)
    if client is None:
        return False
    try:
        asked = [client, "version", "--format", "{{.Server.Version}}"]
        return subprocess.run(asked, capture_output=True, timeout=_DOCKER_ANSWERS_S, check=False).returncode == 0  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return False


def put_tools(folder: Path, vm: VM, disk: Path, path: str, *, with_docker: bool) -> None:
    """Writes into `folder` what is missing in `path`."""
    folder.mkdir(parents=True, exist_ok=True)
    if with_docker:
        _put(folder / "docker", program("costguard_sandbox.guest.docker", str(disk)))
    if vm.shape.gpu_count and shutil.which("nvidia-smi", path=path) is None:
        about = str(vm.id), vm.shape.gpu_type, str(vm.shape.gpu_count)
        _put(folder / "nvidia-smi", program("costguard_sandbox.guest.nvidia_smi", *about))
    if shutil.which("python3", path=path) is None:
        _put(folder / "python3", [sys.executable])


def _put(place: Path, command: list[str]) -> None:
    place.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    place.chmod(0o755)
