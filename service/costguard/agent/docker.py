"""The command in a container: what `docker` is called with, the registry's password, the end of a container."""

from __future__ import annotations

import json
import os
import subprocess

from .calls import Metadata, Trouble
from .files import say
from .settings import Settings


def run_arguments(
    settings: Settings, image: str, container: str, config: str, step_file: str, variables: list[str]
) -> list[str]:
    """The call that holds the container while it runs, and passes signals on to it."""
    step_folder = os.path.dirname(step_file)
    options = ["--name", container, "--init", "--ipc=host", "--volume", f"{step_folder}:{step_folder}"]
    options += ["--gpus", "all"] if settings.gpus else []
    options += ["--workdir", settings.workdir] if settings.workdir else []
    for mount in settings.mounts:
        options += ["--volume", mount]
    for name in variables:  # named alone, docker takes the value from its own environment, and no list shows it
        options += ["--env", name]
    options += settings.docker_args
    return ["docker", "--config", config, "run", *options, image, *settings.command]


def log_in(settings: Settings, config: str, metadata: Metadata) -> bool:
    """At Google's registries, as the VM's service account. False where that failed, which public images survive."""
    registry = settings.image.split("/")[0]
    if registry != "gcr.io" and not registry.endswith((".gcr.io", ".pkg.dev")):
        return True
    command = ["docker", "--config", config, "login", "--username", "oauth2accesstoken", "--password-stdin"]
    try:
        token: str = json.loads(metadata.get("instance/service-accounts/default/token")[0])["access_token"]
        done = subprocess.run(
            [*command, f"https://{registry}"], input=token.encode(), capture_output=True, timeout=60, check=False
        )
    except (Trouble, OSError, subprocess.SubprocessError, ValueError, KeyError) as problem:
        say(f"no login at {registry}: {problem!r}")
        return False
    if done.returncode:
        say(f"no login at {registry}: {done.stderr.decode('utf-8', 'replace')[-300:]}")
    return done.returncode == 0


def kill(container: str) -> None:
    try:
        subprocess.run(["docker", "kill", container], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError) as problem:
        say(f"docker kill {container} failed: {problem}")
