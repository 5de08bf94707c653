"""The command in a container: pulling its image, `docker run`, and why a container did not start its command.

`docker run` ends with 125 where Docker itself failed, 126 where the command cannot be executed, 127 where there is no
such command (docs.docker.com/reference/cli/docker/container/run, "Exit status"). A command may end with the same codes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .failures import Trouble, patiently
from .files import make_volatile, read_json, say, write_json
from .settings import AttemptSettings, NotStarted

if TYPE_CHECKING:
    from .calls import Metadata

PULL_TRIES = 5
DIGEST = re.compile(r"@(sha256:[0-9a-f]{64})$")
# The errors of registries and Docker for an image that does not exist: trying again, on any VM, changes nothing.
NO_SUCH_IMAGE = re.compile(
    r"manifest unknown|name unknown|not found|repository does not exist|no matching manifest|invalid reference format"
)
NO_ACCESS = re.compile(r"access denied|denied: |unauthorized|may require 'docker login'")


class Image(NamedTuple):
    """`reference` is for `docker run`. `digest` is empty for an image that no registry knows."""

    reference: str
    digest: str


# Docker's own configuration for private registries, as GitLab CI takes it too (docs.gitlab.com/ci/docker/
# using_docker_images, "Use statically-defined credentials").
AUTH_VARIABLE = "DOCKER_AUTH_CONFIG"


def pull_image(
    settings: AttemptSettings,
    folder: str,
    config: str,
    metadata: Metadata,
    wait: Callable[[float], None],
    registries: str = "",
) -> Image:
    """Pulls the image: by the first pull's digest, unless the job says `pull`. Raises NotStarted or Trouble.

    `registries` is the value of DOCKER_AUTH_CONFIG. It is in memory alone, and only while the image is pulled.
    """
    if not registries:
        return _pulled_image(settings, folder, config, metadata, wait)
    with tempfile.TemporaryDirectory(prefix="docker-", dir=make_volatile()) as private:
        try:
            is_right = isinstance(json.loads(registries), dict)
        except ValueError:
            is_right = False
        if not is_right:
            raise NotStarted(f'the secret {AUTH_VARIABLE} must be JSON like {{"auths": {{"ghcr.io": ...}}}}', True)
        with open(os.path.join(private, "config.json"), "w", encoding="utf-8") as file:
            file.write(registries)
        return _pulled_image(settings, folder, private, metadata, wait)


def _pulled_image(
    settings: AttemptSettings, folder: str, config: str, metadata: Metadata, wait: Callable[[float], None]
) -> Image:
    if not shutil.which("docker"):
        raise NotStarted("this VM has no docker: use a boot image that has it, or a job without an image", True)
    noted = f"{folder}/image.json"
    before = read_json(noted)
    reference = settings.image
    if before.get("image") == reference and before.get("digest") and not settings.pull and not DIGEST.search(reference):
        reference = f"{reference}@{before['digest']}"
    is_logged_in = log_in(settings, config, metadata)
    try:
        patiently(
            lambda: _pull(reference, config, is_logged_in, wait, settings.poll_s), wait, PULL_TRIES, settings.retry_s
        )
    except (NotStarted, Trouble) as problem:
        details = inspect_image(reference)
        if details is None:
            raise
        say(f"{problem}; the copy of {reference} on this VM is used")
    else:
        details = inspect_image(reference)
    image = _image(reference, details or {})
    try:
        write_json(noted, {"image": settings.image, "digest": image.digest})
    except OSError as error:
        say(f"the digest of {settings.image} is not kept on this VM: {error}")
    return image


def _pull(reference: str, config: str, is_logged_in: bool, wait: Callable[[float], None], poll_s: float) -> None:
    code, text = _run_command(["docker", "--config", config, "pull", reference], wait, poll_s)
    if code == 0:
        return
    lines = [line for line in text.strip().splitlines() if line.strip()]
    words = next((line for line in reversed(lines) if "rror" in line), lines[-1] if lines else f"exit code {code}")
    message = f"docker pull {reference} failed: {words.strip()}"
    if NO_SUCH_IMAGE.search(words) or (is_logged_in and NO_ACCESS.search(words)):
        raise NotStarted(message, True)
    raise Trouble(message)


def inspect_image(reference: str) -> dict[str, Any] | None:
    """The image on this VM; None where it has none."""
    command = ["docker", "image", "inspect", reference]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        details = json.loads(done.stdout or b"[]") if done.returncode == 0 else []
    except (OSError, subprocess.SubprocessError, ValueError) as problem:
        say(f"docker image inspect {reference} failed: {problem!r}")
        return None
    return details[0] if isinstance(details, list) and details and isinstance(details[0], dict) else None


def _image(reference: str, details: dict[str, Any]) -> Image:
    pinned = DIGEST.search(reference)
    if pinned:
        return Image(reference, pinned.group(1))
    names = [name for name in details.get("RepoDigests") or [] if isinstance(name, str)]
    repository = re.sub(r":[\w.-]+$", "", reference)
    # Docker shortens names of its own Hub: docker.io/library/busybox is busybox there.
    short = re.sub(r"^(docker\.io/)?(library/)?", "", repository)
    mine = [name for name in names if name.split("@")[0] in (repository, short)] or names
    digest = DIGEST.search(mine[0]) if mine else None
    return Image(f"{reference}@{digest.group(1)}", digest.group(1)) if digest else Image(reference, "")


def _run_command(command: list[str], wait: Callable[[float], None], poll_s: float) -> tuple[int, str]:
    """The exit code and all output. `wait` raises when the command is not wanted any more."""
    printed: list[bytes] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        reading = threading.Thread(target=lambda: printed.append(process.communicate()[0]), daemon=True)
        reading.start()
        try:
            while reading.is_alive():
                wait(poll_s)
        except BaseException:
            process.kill()
            raise
    return process.returncode, b"".join(printed).decode("utf-8", "replace")


def run_arguments(
    settings: AttemptSettings, image: str, container: str, config: str, step_file: str, variables: list[str]
) -> list[str]:
    """The call that runs the container, and passes signals on to it."""
    options = options_of(settings, container, step_file)
    for name in variables:  # named alone, docker takes the value from its own environment, and no list shows it
        options += ["--env", name]
    return ["docker", "--config", config, "run", *options, image, *settings.command]


def options_of(settings: AttemptSettings, container: str, step_file: str) -> list[str]:
    """The options of the command's container and of its setup's."""
    step_folder = os.path.dirname(step_file)
    options = ["--name", container, "--init", "--ipc=host", "--volume", f"{step_folder}:{step_folder}"]
    options += ["--gpus", "all"] if settings.gpus else []
    if settings.gang and not any(word.split("=")[0] in ("--network", "--net") for word in settings.docker_args):
        options.append("--network=host")  # launchers take ports of their own, and name this VM's address
    options += ["--workdir", settings.workdir] if settings.workdir else []
    for mount in settings.mounts:
        options += ["--volume", mount]
    return [*options, *settings.docker_args]


def log_in(settings: AttemptSettings, config: str, metadata: Metadata) -> bool:
    """Logs in at Google's registries as the VM's service account. False where that fails; public images need none."""
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


def kill_container(container: str) -> None:
    try:
        subprocess.run(["docker", "kill", container], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError) as problem:
        say(f"docker kill {container} failed: {problem}")


DOCKERS_OWN = (125, 126, 127)
NEVER = "0001-01-01T00:00:00Z"
# With --init the container starts with Docker's init, which is tini, and that cannot execute the command.
INIT_FAILED = re.compile(r"^\[FATAL tini \(\d+\)\] (exec .* failed: .*)$")
CLIENT_FAILED = re.compile(r"^docker: (?:Error response from daemon: )?(.*)$")
LAST_LINES = 6


def why_not_started(container: str, code: int | None, output: str) -> str | None:
    """Docker's error where the command never ran; None where the exit code is, or may be, the command's own."""
    if code not in DOCKERS_OWN:
        return None
    lines = [line.strip() for line in output.splitlines() if line.strip()][-LAST_LINES:]
    if code != 125:
        for line in reversed(lines):
            failure = INIT_FAILED.match(line)
            if failure:
                return failure.group(1)
    printed = next((match.group(1) for match in map(CLIENT_FAILED.match, reversed(lines)) if match), "")
    state = _container_state(container)
    if state is None:  # Docker does not answer any more: there is only what it printed
        return printed or None
    if state.get("StartedAt", NEVER) != NEVER:
        return None
    return str(state.get("Error") or printed or "Docker gave no reason")


def remove_container(container: str) -> None:
    """Removes a container with what it wrote outside of its mounts, if it still exists."""
    try:
        subprocess.run(["docker", "rm", "--force", container], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as problem:
        say(f"docker rm {container} failed: {problem}")


def container_process(container: str) -> int:
    """Returns its first process as the VM numbers it; 0 where it does not run yet, or Docker does not answer.

    docs.docker.com, Engine API, ContainerState: `Pid`, 0 when the container does not run.
    """
    pid = (_container_state(container) or {}).get("Pid")
    return pid if isinstance(pid, int) and pid > 0 else 0


def _container_state(container: str) -> dict[str, Any] | None:
    """Empty for a container that was never created; None where Docker does not answer."""
    command = ["docker", "container", "inspect", "--format", "{{json .State}}", container]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        if done.returncode:
            return {} if b"no such container" in done.stderr.lower() else None
        state = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as problem:
        say(f"docker container inspect {container} failed: {problem!r}")
        return None
    return state if isinstance(state, dict) else None
