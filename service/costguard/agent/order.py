"""What the runner is to do: all that must be at hand before the command can start."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from . import containers, docker
from .calls import Http, Metadata, fetch_secrets, patiently
from .files import make_folder, write_through
from .images import Image
from .machine import gpus
from .settings import NotStarted, Settings

SECRET_TRIES = 6


def prepare(
    settings: Settings,
    metadata: Metadata,
    folder: str,
    run: int,
    step_file: str,
    wait: Callable[[float], None],
    image: Image | None,
) -> dict[str, Any]:
    """Waits for GPUs, whose drivers Deep Learning images install at the first boot, and for secrets."""
    http = Http()
    secrets = patiently(lambda: fetch_secrets(settings, metadata, http), wait, SECRET_TRIES, settings.retry_s)
    latest = time.monotonic() + settings.gpu_wait_s
    while settings.gpus > len(gpus() or []):
        if time.monotonic() > latest:
            raise NotStarted(f"this VM should have {settings.gpus} GPUs, and nvidia-smi shows {len(gpus() or [])}")
        wait(4 * settings.poll_s)
    own = {"COSTGUARD_ATTEMPT": settings.attempt, "COSTGUARD_RUN": str(run), "COSTGUARD_STEP_FILE": step_file}
    # Unbuffered, or a step would be told when it is long past.
    variables = {"PYTHONUNBUFFERED": "1", **settings.environment, **secrets, **own}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COSTGUARD_")}
    inherited.setdefault("HOME", os.path.expanduser("~"))  # systemd gives its services none
    argv, workdir = settings.command, settings.workdir or os.path.join(folder, "work")
    if image is not None:
        name = container(settings, run)
        argv = docker.run_arguments(settings, image.reference, name, config_of(folder), step_file, list(variables))
        for earlier in range(1, run):
            containers.remove(container(settings, earlier))
        workdir = folder
    make_folder(workdir)
    return {
        "argv": argv,
        "container": container(settings, run) if image is not None else "",
        "workdir": workdir,
        "environment": {**inherited, **variables},
        "hidden": list(secrets.values()),
        "grace_s": settings.notice_grace_s,
        "log_bytes": settings.log_bytes,
        "log_files": settings.log_files,
    }


def config_of(folder: str) -> str:
    """Docker's own settings, with the password of the registry."""
    return os.path.join(folder, "docker")


def container(settings: Settings, run: int) -> str:
    return f"costguard-{settings.attempt}-{run}"


def hand_over(order: dict[str, Any], folder: str, held: int) -> subprocess.Popen[bytes]:
    """The order goes through a pipe, so that secrets stand in no file and in no list of processes.

    The runner keeps the lock `held` for as long as it lives; that is how a later agent knows that it lives.
    """
    runner = subprocess.Popen(
        [sys.executable, "-I", os.path.abspath(sys.argv[0]), "run", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        pass_fds=(held,),
        cwd="/",
    )
    write_through(runner.stdin, order)
    return runner
