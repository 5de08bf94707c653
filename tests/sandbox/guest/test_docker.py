"""The stand-in for `docker`: what the agent calls, as Docker would answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.sandbox.guest.served_vms import PATIENCE_S, processes_of
from tests.sandbox.vms import T4, new_world, up

from costguard_sandbox.guest.boot import has_docker, program, put_tools
from costguard_sandbox.guest.docker import DockerFailed, read_run

_ENVIRONMENT = {"PATH": os.environ["PATH"], "GIVEN": "by name", "HIDDEN": "never passed"}

MISSING = "Unable to find image 'acme/train:1' locally\n"


def docker(disk: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*program("costguard_sandbox.guest.docker", str(disk)), *words],
        env=_ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(disk: Path, *words: str) -> tuple[int, str, str]:
    with docker(disk, *words) as process:
        output, errors = process.communicate(timeout=PATIENCE_S)
    return process.returncode, output, errors


def run(disk: Path, *words: str, options: Sequence[str] = ()) -> tuple[int, str, str]:
    """Runs as the agent calls it."""
    usual = ["--name", "c1", "--init", "--ipc=host", "--gpus", "all", *options]
    return done(disk, "--config", str(disk / "config"), "run", "--rm", *usual, "acme/train:1", *words)


def test_a_container_has_its_own_environment_and_directory(tmp_path: Path) -> None:
    """The container has what was passed, a PATH, a HOME and a name; its files go with it."""
    options = ["--env", "GIVEN", "--env", "SAID=so", "-e", "ABSENT", "--workdir", "/workspace/code"]
    code, output, errors = run(tmp_path, "sh", "-c", "env | sort; pwd; touch here", options=options)
    assert (code, errors) == (0, MISSING)
    *lines, place = output.splitlines()
    variables = dict(line.split("=", 1) for line in lines)
    assert {name for name in variables if name not in ("PWD", "OLDPWD", "SHLVL", "_")} == {
        "PATH", "HOME", "HOSTNAME", "GIVEN", "SAID",
    }  # fmt: skip
    assert (variables["GIVEN"], variables["SAID"], variables["HOSTNAME"]) == ("by name", "so", "c1")
    assert place.endswith("/workspace/code")
    assert Path(place).is_relative_to(tmp_path)
    assert list((tmp_path / "run/containers").iterdir()) == []


@pytest.mark.parametrize(
    ("command", "code"),
    [(["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137), (["no-such-program"], 127), (["/etc"], 126)],
)
def test_the_exit_code_is_dockers(tmp_path: Path, command: list[str], code: int) -> None:
    """The command's own, 128 and the signal's number, 127 and 126 where it cannot be started."""
    assert run(tmp_path, *command)[0] == code


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["run", "--cidfile", "x", "image", "true"], "unknown flag: --cidfile"),
        (["run", "--rm", "image"], "give a command"),
        (["run", "--rm"], "requires at least 1 argument"),
        (["run", "--name"], "needs an argument"),
    ],
)
def test_an_unrunnable_command_is_a_docker_failure(tmp_path: Path, words: list[str], text: str) -> None:
    """125, which no command of a container has; the words say why."""
    code, _, errors = done(tmp_path, *words)
    assert code == 125
    assert text in errors


def test_signals_are_forwarded(tmp_path: Path) -> None:
    """The signals go to the first process, which may take its time."""
    script = "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    with docker(tmp_path, "run", "--rm", "image", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "told\n"
        assert process.wait(PATIENCE_S) == 3


def test_a_container_ends_with_its_first_process(tmp_path: Path) -> None:
    """Other processes in it are killed."""
    code, output, _ = run(tmp_path, "sh", "-c", "setsid sh -c 'trap \"\" TERM; sleep 1000' & echo done")
    assert (code, output) == (0, "done\n")
    assert processes_of(tmp_path) == []


def test_a_container_is_killed_by_its_name(tmp_path: Path) -> None:
    """The container is killed also when the process that ran it is gone; its name is free only afterwards."""
    script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    with docker(tmp_path, "run", "--name", "c1", "image", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        code, _, errors = run(tmp_path, "true")
        assert (code, "already in use" in errors) == (125, True)
        process.kill()
        process.wait(PATIENCE_S)
        assert run(tmp_path, "true")[0] == 125
        assert done(tmp_path, "kill", "--signal", "TERM", "c1") == (0, "c1\n", "")
        assert done(tmp_path, "kill", "c1") == (0, "c1\n", "")
        assert process.stdout.read() == ""
    assert run(tmp_path, "true")[0] == 0
    assert done(tmp_path, "kill", "c1")[0] == 1


def test_a_volume_is_at_its_real_path(tmp_path: Path) -> None:
    """The volume's place in the container is rewritten in words, within them, and in variables; the data
    outlives it.
    """
    options = ["--volume", "/mnt/data:/data", "-v", "cache:/root/.cache:ro", "--env", "OUT=/data/out"]
    script = 'mkdir -p "$OUT" && echo x >/data/one && echo y >"$OUT/two" && ls -d $0'
    code, output, errors = run(tmp_path, "sh", "-c", script, "/root/.cache", options=[*options, "--workdir", "/data"])
    assert (code, errors) == (0, MISSING)
    assert output.strip() == str(tmp_path / "var/lib/docker/volumes/cache")
    assert (tmp_path / "mnt/data/one").read_text() == "x\n"
    assert (tmp_path / "mnt/data/out/two").read_text() == "y\n"


def test_only_whole_names_are_rewritten(tmp_path: Path) -> None:
    """/data is not /database; the deepest volume wins; a volume at its own place changes nothing."""
    own = str(tmp_path / "step")
    options = ["-v", "/a:/data", "-v", "/b:/data/deep", "-v", f"{own}:{own}", "-w", own]
    wanted = read_run([*options, "image", "true"], tmp_path, {})
    a, b = tmp_path / "a", tmp_path / "b"
    assert wanted.rewritten("/database /data/x --o=/data:/data/deep/y,z/data '/data' $X/data ${X}/data >/data/y") == (
        f"/database {a}/x --o={a}:{b}/y,z/data '{a}' $X/data ${{X}}/data >{a}/y"
    )
    assert wanted.rewritten(f"{own}/step") == f"{own}/step"
    assert wanted.real_workdir(tmp_path / "files") == Path(own)


def test_login_succeeds_and_other_commands_are_refused(tmp_path: Path) -> None:
    """Nothing pretends to have done what it did not do."""
    assert done(tmp_path, "--config", "x", "login", "--username", "u", "https://gcr.io") == (0, "Login Succeeded\n", "")
    code, _, errors = done(tmp_path, "push", "image")
    assert (code, "kill and login, not push" in errors) == (1, True)


def test_an_option_without_effect_here_is_taken(tmp_path: Path) -> None:
    """Bounds and isolation; what is unknown could change what runs."""
    words = ["--shm-size=16g", "--ulimit", "memlock=-1", "--network", "host", "-it", "--user", "1000", "image", "true"]
    assert read_run(words, tmp_path, {}).command == ["true"]
    with pytest.raises(DockerFailed, match="--checkpoint"):
        read_run(["--checkpoint", "sh", "image", "true"], tmp_path, {})


@pytest.mark.parametrize(("script", "has"), [("echo 28.2", True), ("exit 1", False), (None, False)])
def test_a_docker_client_without_a_daemon_does_not_count(tmp_path: Path, script: str | None, has: bool) -> None:
    """The stand-in takes its place then, as where there is no docker at all."""
    if script is not None:
        (tmp_path / "docker").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "docker").chmod(0o755)
    assert has_docker(str(tmp_path)) is has


def test_a_vm_has_the_tools_that_the_host_lacks(tmp_path: Path) -> None:
    """A python3; nvidia-smi where the VM has GPUs; nothing that is there already."""
    world = new_world()
    bare, gpu = up(world, "bare"), up(world, "gpu", **T4)
    put_tools(tmp_path / "bare", bare, tmp_path, str(tmp_path), with_docker=False)
    put_tools(tmp_path / "gpu", gpu, tmp_path, str(tmp_path), with_docker=True)
    put_tools(tmp_path / "rich", gpu, tmp_path, str(tmp_path / "gpu"), with_docker=False)
    tools = {place: {one.name for one in (tmp_path / place).iterdir()} for place in ("bare", "gpu", "rich")}
    assert tools == {"bare": {"python3"}, "gpu": {"python3", "nvidia-smi", "docker"}, "rich": set()}
    query = ["--query-gpu=index,name,utilization.gpu,memory.total", "--format=csv,noheader,nounits"]
    shown = subprocess.run([tmp_path / "gpu/nvidia-smi", *query], capture_output=True, text=True, check=True)
    assert shown.stdout == "0, Tesla T4, [N/A], 15360\n"
    python = subprocess.run([tmp_path / "bare/python3", "-c", "print(1)"], capture_output=True, text=True, check=True)
    assert python.stdout == "1\n"


def test_python_is_the_same_inside(tmp_path: Path) -> None:
    """The programs of this machine are the container's."""
    assert run(tmp_path, sys.executable, "-c", "print(6 * 7)")[1] == "42\n"
