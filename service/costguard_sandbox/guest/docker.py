"""A stand-in for `docker` in VMs without one: a container is a local process with its own environment.

As in Docker: `run`, `pull`, `commit`, `inspect`, `rm`, `kill` and `login`, forwarded signals, exit codes, names,
digests, and the end of the whole container with its first process. What a container wrote in its home and its working
directory stays until it is removed, and `commit` keeps it for containers of the new image, but not what lies in volumes
(docs.docker.com/reference/cli/docker/container/commit). Unlike Docker: images are names and digests only, so commands
use the host's programs; containers have no other files, so paths below a volume's mount point are rewritten, in
arguments and variables, to the real ones. A volume's source is a path of the VM, below the VM's directory.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from costguard_sandbox.guest.docker_store import NEVER, EndedContainers, Images, NoImage, ended, now, parse
from costguard_sandbox.guest.init_process import (
    DEV_NULL,
    Process,
    Signals,
    adopt_orphans,
    descendants,
    look,
    reap,
    send,
)

_SWITCHES = {"--rm", "--init", "--privileged", "--read-only", "--sig-proxy", "--quiet", "-q"} | {
    "--tty",
    "-t",
}
_INTERACTIVE = frozenset({"--interactive", "-i", "-it"})  # standard input is the caller's
# They limit or share what a local process has anyway.
_IGNORED = re.compile(
    "--(cap-(add|drop)|cpus?(set-cpus|-shares)?|device|dns|gpus|group-add|hostname|ipc|label|log-(driver|opt)|memory"
    "(-swap)?|network|oom-score-adj|pid|platform|pull|restart|runtime|security-opt|shm-size|stop-timeout|tmpfs|ulimit"
    "|user(ns)?)|-[hlmu]"
)
# Not part of a longer path: /x/data, $X/data, /data-2.
_INSIDE_BEFORE, _INSIDE_AFTER = r"(?<![\w./\-})\]~*%])", r"(?![\w.-])"
_SHORT = {"-v": "--volume", "-w": "--workdir", "-e": "--env"}


_FAILED, _NOT_EXECUTABLE, _NOT_FOUND = 125, 126, 127
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_KILLS_EVERY_S = 0.05


class DockerFailed(Exception):
    """A failure of Docker itself: exit code 125."""


@dataclass
class Container:
    """The arguments of `docker run`. `volumes`: mount points in the container to real folders."""

    name: str = ""
    workdir: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, Path] = field(default_factory=dict)
    image: str = ""
    command: list[str] = field(default_factory=list)
    entrypoint: str = ""
    is_interactive: bool = False
    has_init: bool = False
    is_removed: bool = False  # when it ends

    def rewritten(self, text: str) -> str:
        """The text with every path below a mount point replaced by the real one."""
        if not self.volumes:
            return text
        deepest_first = sorted(self.volumes, key=len, reverse=True)
        places = "|".join(re.escape(place) for place in deepest_first)
        alone = rf"{_INSIDE_BEFORE}({places}){_INSIDE_AFTER}"
        return re.sub(alone, lambda match: str(self.volumes[match[1]]), text)

    def real_workdir(self, own_files: Path) -> Path:
        """Outside all volumes, it is among the files that are deleted with the container."""
        place = self.rewritten(self.workdir)
        return (
            own_files / self.workdir.lstrip("/") if place == self.workdir and not self._is_real(place) else Path(place)
        )

    def _is_real(self, place: str) -> bool:
        return any(place == str(path) or place.startswith(f"{path}/") for path in self.volumes.values())


def read_run(words: Sequence[str], disk: Path, environment: Mapping[str, str]) -> Container:
    """Raises DockerFailed for an unknown option, which could change what runs."""
    left, container = list(words), Container()
    while left and left[0].startswith("-"):
        option, is_joined, value = left.pop(0).partition("=")
        option = _SHORT.get(option, option)
        if option in _INTERACTIVE:
            container.is_interactive = True
            continue
        if option in _SWITCHES:
            container.has_init = container.has_init or option == "--init"
            container.is_removed = container.is_removed or option == "--rm"
            continue
        if not is_joined and not left:
            raise DockerFailed(f"flag needs an argument: {option}")
        _take(container, option, value if is_joined else left.pop(0), disk, environment)
    if not left:
        raise DockerFailed("'docker run' requires at least 1 argument: an image")
    container.image = left[0]
    container.command = [*([container.entrypoint] if container.entrypoint else []), *left[1:]]
    if not container.command:
        raise DockerFailed(
            f"the simulated docker has no images, so it does not know what {left[0]} runs: give a command"
        )
    return container


def _take(container: Container, option: str, value: str, disk: Path, environment: Mapping[str, str]) -> None:
    if option == "--name":
        container.name = value
    elif option == "--entrypoint":
        container.entrypoint = value
    elif option == "--workdir":
        container.workdir = value
    elif option == "--env":
        name, is_given, given = value.partition("=")
        if is_given or name in environment:  # a name alone is passed from the caller's environment
            container.environment[name] = given if is_given else environment[name]
    elif option == "--volume":
        source, _, place = value.partition(":")
        container.volumes[(place.partition(":")[0] or source).rstrip("/")] = _source(source, disk)
    elif not _IGNORED.fullmatch(option):
        raise DockerFailed(f"unknown flag: {option} (the simulated docker knows a part of them)")


def _source(source: str, disk: Path) -> Path:
    if not source.startswith("/"):
        return disk / "var/lib/docker/volumes" / source
    path = Path(source)
    return path if path.is_relative_to(disk) else disk / source.lstrip("/")


def run(words: Sequence[str], disk: Path, environment: Mapping[str, str]) -> int:
    """Run the container until its first process ends; then kill the rest of it."""
    wanted = read_run(words, disk, environment)
    name = wanted.name or f"container-{os.getpid()}"
    state = _state(disk, name)
    if holder := _holder(state):
        raise DockerFailed(f'Conflict. The container name "/{name}" is already in use by process {holder.pid}.')
    containers = EndedContainers(disk)
    if containers.state(name) is not None:
        raise DockerFailed(f'Error response from daemon: Conflict. The container name "/{name}" is already in use.')
    _pulled(wanted.image, disk)
    own_files = containers.files(name)
    shutil.rmtree(own_files, ignore_errors=True)
    Images(disk).unpack(wanted.image, own_files)
    adopt_orphans()
    signals = Signals(signal.SIGCHLD, *_FORWARDED)
    started_at, code, error = now(), _FAILED, ""
    try:
        first = _start(wanted, own_files, {"PATH": environment["PATH"], "HOSTNAME": name})
        state.write_text(json.dumps(look(first)))
        code = _hold(first, signals)
    except OSError as problem:
        code, error = _not_executed(wanted, problem)
        started_at = NEVER if error else started_at
    finally:
        if wanted.is_removed:
            shutil.rmtree(own_files, ignore_errors=True)
        else:
            containers.keep(name, ended(code, started_at, error))
        state.unlink(missing_ok=True)
    return code


def _not_executed(wanted: Container, problem: OSError) -> tuple[int, str]:
    """The exit code and the daemon's error. With --init it is tini that reports it."""
    code = _NOT_EXECUTABLE if isinstance(problem, PermissionError) else _NOT_FOUND
    program = wanted.command[0]
    if wanted.has_init:
        sys.stderr.write(f"[FATAL tini (7)] exec {program} failed: {problem.strerror}\n")
        return code, ""
    why = "permission denied" if code == _NOT_EXECUTABLE else "executable file not found in $PATH"
    error = (
        "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create "
        f'failed: unable to start container process: exec: "{program}": {why}: unknown'
    )
    _say(f"Error response from daemon: {error}.\n\nRun 'docker run --help' for more information", code)
    return code, error


def _pulled(image: str, disk: Path) -> None:
    """Pull the image if the VM does not have it."""
    images = Images(disk)
    try:
        reference = parse(image)
        if images.find(reference) is None:
            sys.stderr.write(f"Unable to find image '{image}' locally\n")
            images.keep(reference, images.pull(reference))
    except NoImage as missing:
        raise DockerFailed(f"Error response from daemon: {missing}") from None


def pull(words: Sequence[str], disk: Path) -> int:
    """`pull NAME[:TAG|@DIGEST]`, with Docker's output."""
    images = Images(disk)
    try:
        reference = parse(words[0] if words else "")
        if not reference.digest and not words[0].endswith(f":{reference.tag}"):
            sys.stdout.write(f"Using default tag: {reference.tag}\n")
        digest = images.pull(reference)
    except NoImage as missing:
        sys.stderr.write(f"Error response from daemon: {missing}\n")
        return 1
    hub = "" if "." in reference.repository.partition("/")[0] else "docker.io/"
    library = "library/" if hub and "/" not in reference.repository else ""
    shown = reference.tagged if not reference.digest else f"{reference.repository}@{digest}"
    is_new = images.keep(reference, digest)
    status = "Downloaded newer image for" if is_new else "Image is up to date for"
    sys.stdout.write(f"{reference.tag or digest}: Pulling from {library}{reference.repository}\nDigest: {digest}\n")
    sys.stdout.write(f"Status: {status} {shown}\n{hub}{library}{shown}\n")
    return 0


def commit(words: Sequence[str], disk: Path) -> int:
    """`commit [--change INSTRUCTION]... CONTAINER NAME[:TAG]`, with ENTRYPOINT and CMD as JSON."""
    left, config = list(words), {}
    while left[:1] == ["--change"] and len(left) > 1:
        instruction, _, value = left[1].partition(" ")
        if instruction not in ("ENTRYPOINT", "CMD"):
            raise DockerFailed(f"the simulated docker does not know the change {instruction}")
        config["Entrypoint" if instruction == "ENTRYPOINT" else "Cmd"] = json.loads(value) or None
        left = left[2:]
    containers = EndedContainers(disk)
    if len(left) != 2 or (containers.state(left[0]) is None and _holder(_state(disk, left[0])) is None):
        sys.stderr.write(f"Error response from daemon: No such container: {left[0] if left else ''}\n")
        return 1
    sys.stdout.write(f"{Images(disk).commit(parse(left[1]), containers.files(left[0]), config)}\n")
    return 0


def inspect_image(words: Sequence[str], disk: Path) -> int:
    """`image inspect NAME`."""
    try:
        image = Images(disk).find(parse(words[0] if words else ""))
    except NoImage:
        image = None
    sys.stdout.write(json.dumps([image] if image is not None else [], indent=4) + "\n")
    if image is None:
        sys.stderr.write(f"Error: No such image: {words[0] if words else ''}\n")
    return 0 if image is not None else 1


def inspect_container(words: Sequence[str], disk: Path) -> int:
    """`container inspect --format '{{json .State}}' NAME`."""
    if words[:1] != ["--format"] or words[1:2] != ["{{json .State}}"]:
        raise DockerFailed("the simulated docker inspects a container's state alone: --format '{{json .State}}'")
    state = EndedContainers(disk).state(words[2])
    sys.stdout.write(f"{json.dumps(state)}\n" if state is not None else "\n")
    if state is None:
        sys.stderr.write(f"Error response from daemon: No such container: {words[2]}\n")
    return 0 if state is not None else 1


def remove(words: Sequence[str], disk: Path) -> int:
    """`rm [--force] NAME...`: with --force a running container is killed, and a missing one is no error."""
    is_forced = words[:1] in (["--force"], ["-f"])
    code = 0
    for name in words[1:] if is_forced else words:
        is_running = _holder(_state(disk, name)) is not None
        if is_running and is_forced:
            kill([name], disk)
        if EndedContainers(disk).remove(name) or (is_running and is_forced):
            sys.stdout.write(f"{name}\n")
        else:
            sys.stderr.write(f"Error response from daemon: No such container: {name}\n")
            code = code if is_forced else 1
    return code


def _start(wanted: Container, own_files: Path, base: dict[str, str]) -> int:
    home = own_files / "root"
    workdir = wanted.real_workdir(own_files)
    for folder in (home, workdir, *wanted.volumes.values()):
        folder.mkdir(parents=True, exist_ok=True)
    os.chdir(workdir)
    command = [wanted.rewritten(word) for word in wanted.command]
    passed = {name: wanted.rewritten(value) for name, value in wanted.environment.items()}
    variables = {**base, "HOME": str(home), **passed}
    input_ = () if wanted.is_interactive else DEV_NULL
    return os.posix_spawnp(command[0], command, variables, file_actions=input_, setsid=True)


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
    """`kill [--signal SIGNAL] NAME...`, also when the process that ran the container is gone."""
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
        if words[:1] == ["pull"]:
            return pull(words[1:], disk)
        if words[:2] == ["image", "inspect"]:
            return inspect_image(words[2:], disk)
        if words[:2] == ["container", "inspect"]:
            return inspect_container(words[2:], disk)
        if words[:1] == ["commit"]:
            return commit(words[1:], disk)
        if words[:1] == ["rm"]:
            return remove(words[1:], disk)
    except DockerFailed as failure:
        return _say(str(failure), _FAILED)
    if words[:1] == ["login"]:
        sys.stdout.write("Login Succeeded\n")
        return 0
    return _say(
        "the simulated docker has run, pull, commit, inspect, rm, kill and login, "
        f"not {' '.join(words[:1]) or 'nothing'}",
        1,
    )
