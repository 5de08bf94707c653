"""`costguard checkpoints`, as a person types it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.checkpoints import writers
from tests.checkpoints.store_stub import store
from tests.cli.conftest import Run
from tests.cli.typed import Typist

from costguard.cli.job.checkpoints import size_text


@pytest.fixture
def run(typist: Typist) -> Run:
    """`costguard checkpoints ARGUMENTS`, with nothing set that is not told."""

    def checkpoints(*arguments: str, folder: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("COSTGUARD_", "AWS_"))}
        return typist.type(["checkpoints", "--wait", "0", *arguments], {**clean, **environ}, folder)

    return checkpoints


def test_a_bucket_by_the_environment_alone(run: Run) -> None:
    """No settings file is needed: each checkpoint with its state and why, and the one to resume from."""
    with store() as bucket:
        written = [*writers.hugging_face(100), *writers.hugging_face(200)[:-1]]
        bucket.objects = {f"run/{path}": body for path, body in written}
        done = run("s3://bkt/run", AWS_ENDPOINT_URL=bucket.url, AWS_REGION="eu-west-1")
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[1].split()[:4] == ["200", "checkpoint-200", "hugging-face", "torn"]
        assert "trainer_state.json is missing." in lines[1]
        assert lines[2].split()[:4] == ["100", "checkpoint-100", "hugging-face", "complete"]
        assert lines[-1] == "Would be resumed from: s3://bkt/run/checkpoint-100, step 100"


def test_endpoints_from_the_settings_file(tmp_path: Path, run: Run) -> None:
    """A settings file that is there is read; a store of Google's kind is reached through it."""
    with store() as bucket:
        bucket.objects = dict(writers.torch_dcp(7))
        settings = f'[watch]\nprojects = ["acme-training"]\n[checkpoints]\ngcs_endpoint = "{bucket.url}"\n'
        (tmp_path / "costguard.toml").write_text(settings)
        done = run("gs://bkt", "--json", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
    assert (answer["resume_from"], answer["step"], answer["framework"]) == ("gs://bkt/step-7", 7, "torch-dcp")
    assert answer["checkpoints"][0]["state"] == "complete"
    assert answer["checkpoints"][0]["written_at"] == "2026-11-20T12:00:00+00:00"


def test_patterns_and_markers(tmp_path: Path, run: Run) -> None:
    """Plain files and folders with a marker, when they are asked for."""
    for path, body in [*writers.plain(7), *writers.marked(5)]:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(body)
    shown = run(str(tmp_path), "--pattern", "weights/ckpt_{step}.pt").stdout
    assert f"Would be resumed from: {tmp_path}/weights/ckpt_000007.pt, step 7" in shown
    assert f"Would be resumed from: {tmp_path}/it5, step 5" in run(str(tmp_path), "--marker", "DONE").stdout


def test_nothing_to_resume_from(tmp_path: Path, run: Run) -> None:
    """Is said, and exits 1, for scripts."""
    done = run(str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == "There is nothing here: work would start from the beginning.\n"
    assert json.loads(run(str(tmp_path), "--json").stdout)["resume_from"] is None


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["ftp://x"], 2, "cannot be read from ftp://"),
        (["gs://bkt", "--pattern", "x"], 2, "does not say where the step stands"),
        (["gs://bkt", "--framework", "tf1"], 2, "tf1"),
        (["/nowhere/at/all"], 1, "There is no folder /nowhere/at/all."),
    ],
)
def test_mistakes_are_reported(arguments: list[str], code: int, message: str, run: Run) -> None:
    """Wrong usage exits 2, what cannot be read 1; never a traceback."""
    done = run(*arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_names_do_not_steer_the_terminal(tmp_path: Path, run: Run) -> None:
    """Controls in names are shown, not sent."""
    (tmp_path / "a\x1b[31m-step=3.ckpt").write_bytes(b"PK")
    shown = run(str(tmp_path)).stdout
    assert "\x1b" not in shown
    assert r"a\x1b[31m-step=3.ckpt" in shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (9949, "9.9 kB"), (13_000_000_000, "13 GB"), (999_600, "1.0 MB")],
)
def test_sizes(size: int, shown: str) -> None:
    """Two figures are enough."""
    assert size_text(size) == shown


def test_a_folder_of_too_many_files_ends_the_look(tmp_path: Path, run: Run) -> None:
    """Such as /usr: it is not listed to its end, and a sentence says what to name. --all goes on."""
    for number in range(20_001):
        (tmp_path / f"file-{number}").touch()
    done = run(str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path} holds more than 20,000 files." in done.stderr
    assert "Name the folder of one run" in done.stderr
    assert "--all lists up to 200,000 files" in done.stderr
    everything = run(str(tmp_path), "--all")
    assert everything.returncode == 1
    assert "20001 files lie at" in everything.stdout
