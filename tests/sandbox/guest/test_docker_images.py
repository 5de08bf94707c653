"""Images and ended containers of the simulated docker, in Docker's own words.

The expected outputs are what Docker printed: docs.docker.com/reference/cli/docker/image/pull, and for failures issues
13 of ivangabriele/dockfish, 11 of wukongdaily/DockerTarBuilder, and 4922 of docker/cli on GitHub.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.sandbox.guest.test_docker import done, run

from costguard_sandbox.guest.boot import program

MOVED = "sha256:" + "b" * 64


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Makes the disk of one VM, next to the registry that all have."""
    folder = tmp_path / "vm"
    folder.mkdir()
    return folder


def registry(disk: Path, **images: str | None) -> None:
    (disk.parent / "registry.json").write_text(json.dumps(images))


def digests(disk: Path, image: str) -> list[str]:
    code, output, _ = done(disk, "image", "inspect", image)
    assert code == 0
    digests: list[str] = json.loads(output)[0]["RepoDigests"]
    return digests


def state(disk: Path, name: str = "c1") -> dict[str, object]:
    code, output, _ = done(disk, "container", "inspect", "--format", "{{json .State}}", name)
    assert code == 0
    state: dict[str, object] = json.loads(output)
    return state


def test_a_pull_prints_the_digest_in_dockers_words(disk: Path) -> None:
    """The words are those of Docker's reference for `docker image pull debian`."""
    code, output, errors = done(disk, "pull", "debian")
    lines = output.splitlines()
    assert (code, errors) == (0, "")
    assert lines[:2] == ["Using default tag: latest", "latest: Pulling from library/debian"]
    assert lines[2].startswith("Digest: sha256:")
    assert lines[3:] == ["Status: Downloaded newer image for debian:latest", "docker.io/library/debian:latest"]
    assert done(disk, "pull", "debian")[1].splitlines()[3] == "Status: Image is up to date for debian:latest"
    assert digests(disk, "debian") == [f"debian@{lines[2].removeprefix('Digest: ')}"]


def test_a_moved_tag_has_another_digest_and_the_old_one_stays(disk: Path) -> None:
    """A tag follows the registry at each pull; a digest is the same image for ever."""
    done(disk, "pull", "europe-docker.pkg.dev/ml/train/bert:1.4")
    (before,) = digests(disk, "europe-docker.pkg.dev/ml/train/bert:1.4")
    registry(disk, **{"europe-docker.pkg.dev/ml/train/bert:1.4": MOVED})
    done(disk, "pull", "europe-docker.pkg.dev/ml/train/bert:1.4")
    assert digests(disk, "europe-docker.pkg.dev/ml/train/bert:1.4") == [f"europe-docker.pkg.dev/ml/train/bert@{MOVED}"]
    pinned = f"europe-docker.pkg.dev/ml/train/bert:1.4@{before.partition('@')[2]}"
    assert done(disk, "pull", pinned)[0] == 0
    assert digests(disk, pinned) == [before]


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"acme/train:2": MOVED}, "manifest for acme/train:1 not found: manifest unknown: manifest unknown"),
        (
            {},
            "pull access denied for acme/train, repository does not exist or may require 'docker login': denied: "
            "requested access to the resource is denied",
        ),
    ],
)
def test_an_image_that_does_not_exist(disk: Path, others: dict[str, str], words: str) -> None:
    """A pull fails with 1 and a run with 125, both with the daemon's words; no container is made."""
    registry(disk, **{"acme/train:1": None}, **others)
    assert done(disk, "pull", "acme/train:1") == (1, "", f"Error response from daemon: {words}\n")
    assert done(disk, "image", "inspect", "acme/train:1")[0] == 1
    code, _, errors = run(disk, "true")
    assert code == 125
    assert f"docker: Error response from daemon: {words}\n" in errors
    assert "No such container: c1" in done(disk, "container", "inspect", "--format", "{{json .State}}", "c1")[2]


def test_a_container_is_kept_until_it_is_removed(disk: Path) -> None:
    """The container's state stays without --rm, and its name is taken."""
    words = ["run", "--name", "c1", "acme/train:1", "sh", "-c", "exit 127"]
    assert done(disk, *words)[0] == 127
    assert state(disk)["ExitCode"] == 127
    assert state(disk)["Status"] == "exited"
    assert str(state(disk)["StartedAt"]) > "2020"
    assert "already in use" in done(disk, *words)[2]
    assert done(disk, "rm", "--force", "c1") == (0, "c1\n", "")
    assert done(disk, *words)[0] == 127


def test_a_command_missing_from_the_image_never_starts(disk: Path) -> None:
    """The state of docker/cli issue 4922: created, 127, an error, and zero for a time."""
    code, _, errors = done(disk, "run", "--name", "c1", "acme/train:1", "no-such-program")
    assert code == 127
    error = 'exec: "no-such-program": executable file not found in $PATH: unknown'
    assert error in errors
    assert str(state(disk)["Error"]).endswith(error)
    assert (state(disk)["Status"], state(disk)["ExitCode"]) == ("created", 127)
    assert (state(disk)["StartedAt"], state(disk)["FinishedAt"]) == ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z")


def test_with_an_init_the_container_starts_and_tini_says_it(disk: Path) -> None:
    """The container prints as tini does, and the daemon knows of no error."""
    code, _, errors = done(disk, "run", "--init", "--name", "c1", "acme/train:1", "/nonexistent")
    assert code == 127
    assert errors.splitlines()[-1] == "[FATAL tini (7)] exec /nonexistent failed: No such file or directory"
    assert (state(disk)["Status"], state(disk)["Error"]) == ("exited", "")


def test_commit_keeps_what_a_container_wrote(disk: Path) -> None:
    """The commit keeps its home and its working directory, not volumes; the image runs what the changes say."""
    (disk / "data").mkdir()
    script = "echo tool > ~/tool; echo here > made; echo seen > /data/seen"
    options = ("--volume", "/data:/data", "--workdir", "/app", "--entrypoint", "/bin/sh")
    assert done(disk, "run", "--name", "c1", *options, "busybox", "-c", script)[0] == 0
    changes = ("--change", 'ENTRYPOINT ["/entry.sh"]', "--change", 'CMD ["serve"]')
    code, image, _ = done(disk, "commit", *changes, "c1", "costguard-setup:a-1")
    assert (code, image[:7]) == (0, "sha256:")
    assert done(disk, "rm", "--force", "c1")[0] == 0
    (shown,) = json.loads(done(disk, "image", "inspect", "costguard-setup:a-1")[1])
    assert shown["Config"] == {"Entrypoint": ["/entry.sh"], "Cmd": ["serve"]}
    assert (shown["RepoTags"], shown["RepoDigests"]) == (["costguard-setup:a-1"], [])
    look = "cat ~/tool made; ls ~"
    command = ("run", "--name", "c2", "--workdir", "/app", "costguard-setup:a-1", "sh", "-c", look)
    assert done(disk, *command)[1].split() == ["tool", "here", "tool"]
    other = done(disk, "run", "--workdir", "/app", "busybox", "sh", "-c", "ls ~ .")
    assert "tool" not in other[1]


def test_commit_of_a_container_that_is_gone_fails(disk: Path) -> None:
    """The failure is in the daemon's words."""
    code, _, errors = done(disk, "commit", "c1", "costguard-setup:a-1")
    assert code == 1
    assert "No such container: c1" in errors


def test_interactive_container_reads_standard_input(disk: Path) -> None:
    """Others read nothing."""
    assert run_with(disk, "hello", "run", "--interactive", "busybox", "cat") == "hello"
    assert run_with(disk, "hello", "run", "busybox", "cat") == ""


def run_with(disk: Path, given: str, *words: str) -> str:
    command = [*program("costguard_sandbox.guest.docker", str(disk)), *words]
    finished = subprocess.run(command, input=given, capture_output=True, check=True, timeout=60, text=True)
    return finished.stdout
