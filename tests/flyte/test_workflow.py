"""Real Flyte workflows on a laptop, whose tasks are jobs under a guard, on simulated VMs that run, with data in S3.

`make flyte` installs flytekit, the Flyte 2 SDK and an S3 server for it; elsewhere these tests are skipped.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import S3Store
from tests.ports import free_port
from tests.scenario import guard_process
from tests.scenario.training_ground import OWNER, TrainingWorld, ground
from tests.waiting import until

FLYTE = Path(os.environ.get("COSTGUARD_FLYTE", "nowhere"))
WORKFLOWS = Path(__file__).with_name("workflows")
BUCKET, KEY = "acme", "testing"
PATIENCE_S = 300.0

pytestmark = pytest.mark.skipif(not (FLYTE / "bin" / "python").exists(), reason="`make flyte` installs what it needs")


@dataclass(frozen=True)
class Bucket:
    url: str

    @property
    def variables(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
        }

    @property
    def store(self) -> S3Store:
        config: Any = {"endpoint": self.url, "region": "us-east-1", "access_key_id": KEY, "secret_access_key": KEY}
        return S3Store(BUCKET, config=config, client_options={"allow_http": True})

    def names(self, prefix: str) -> list[str]:
        return sorted(row["path"] for row in obstore.list(self.store, prefix).collect())


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """moto's server: S3 as people who test against AWS know it."""
    port = free_port()
    log = tmp_path_factory.mktemp("s3") / "moto.log"
    with log.open("wb") as said:
        server = subprocess.Popen([FLYTE / "bin" / "moto_server", "-p", str(port)], stdout=said, stderr=said)
    try:
        made = Bucket(f"http://127.0.0.1:{port}")
        until(lambda: _is_up(port))
        # The guard looks at checkpoints with credentials of its own; its process is a fork that begins after this.
        os.environ.update(made.variables, AWS_ALLOW_HTTP="true")
        urllib.request.urlopen(urllib.request.Request(f"{made.url}/{BUCKET}", method="PUT"), timeout=60).close()
        yield made
    finally:
        server.kill()
        server.wait()


def _is_up(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def lab(folder: Path, bucket: Bucket) -> Iterator[tuple[TrainingWorld, dict[str, str]]]:
    """A guard and a cloud, and the environment of a laptop that runs workflows."""
    own = folder / "vm-own"
    with ground(folder, 6.0, path=f"{FLYTE / 'bin'}:{os.environ['PATH']}", own_folders=(own,)) as place:
        environment = {
            "PATH": f"{FLYTE / 'bin'}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": str(WORKFLOWS),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OWN_FOLDER": str(own),
            "COSTGUARD_URL": place.url,
            "COSTGUARD_TOKEN": guard_process.TOKEN,
            "FLYTE_AWS_ENDPOINT": bucket.url,
            "FLYTE_AWS_ACCESS_KEY_ID": KEY,
            "FLYTE_AWS_SECRET_ACCESS_KEY": KEY,
            **bucket.variables,
        }
        yield place, environment


def _preempted_once(
    place: TrainingWorld, program: subprocess.Popen[str], bucket: Bucket, name: str, step: int = 20
) -> dict[str, Any]:
    """Takes the VM of the only job once it has reported a step; the job when the program is over."""

    def job() -> dict[str, Any]:
        assert program.poll() is None, (place.folder / "flyte.log").read_text()[-4000:]
        rows: list[dict[str, Any]] = place.ask("jobs")["jobs"]
        return rows[0] if rows else {"step": None}

    place.wait(lambda: (job()["step"] or 0) >= step, f"step {step} is reported")
    place.wait(lambda: [path for path in bucket.names(f"runs/{name}") if "fit-" in path], "a checkpoint is uploaded")
    place.preempt()
    return job()


@contextmanager
def _run(command: list[str], environment: Mapping[str, str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    with (folder / "flyte.log").open("w") as log:
        program = subprocess.Popen(
            command, env=dict(environment), cwd=folder, stdout=log, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield program
        finally:
            program.kill()
            program.wait()


def expected_model(folder: Path, rate: str) -> dict[str, Any]:
    """Returns the model of the same program, uninterrupted, with the same data."""
    (folder / "data").mkdir()
    (folder / "data" / "numbers.txt").write_text("\n".join(str(number) for number in range(7)))
    options = ["--data", "data", "--rate", rate, "--checkpoints", "plain", "--model", "model", "--step-seconds", "0"]
    subprocess.run([sys.executable, WORKFLOWS / "fit.py", *options], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    model: dict[str, Any] = json.loads((folder / "model" / "model.json").read_text())
    return model


@pytest.mark.parametrize(
    ("name", "command"),
    [
        (
            "kit",
            ["pyflyte", "run", "--raw-output-data-prefix", f"s3://{BUCKET}/flyte", str(WORKFLOWS / "kit_pipeline.py"),
             "pipeline", "--rate", "0.1", "--run", "kit"],
        ),
        ("sdk", ["python", str(WORKFLOWS / "sdk_pipeline.py"), "0.1", "sdk"]),
    ],
)  # fmt: skip
def test_a_workflow_trains_on_spot_between_two_tasks(
    tmp_path: Path, bucket: Bucket, name: str, command: list[str]
) -> None:
    """Data to S3, a training that loses its VM once, its model to S3, and the next task reads exactly that model."""
    with lab(tmp_path, bucket) as (place, environment):
        with _run([str(FLYTE / "bin" / command[0]), *command[1:]], environment, tmp_path) as program:
            job = _preempted_once(place, program, bucket, name)
            assert program.wait(PATIENCE_S) == 0, (tmp_path / "flyte.log").read_text()[-4000:]
        detail = place.ask(f"jobs/{job['id']}")
        place.wait_until_nothing_bills()
    said = (tmp_path / "flyte.log").read_text()
    assert [attempt["outcome"] for attempt in detail["attempts"]] == ["preempted", "succeeded"]
    assert detail["attempts"][1]["resume_step"] >= 20
    model = json.dumps(expected_model(tmp_path, "0.1"), sort_keys=True)
    assert model in said.replace("\\", "")
    assert detail["job"]["owner"] == OWNER
    assert bucket.names(f"runs/{name}") != []


@pytest.mark.parametrize(
    ("serve", "calls_of"),
    [
        (["pyflyte", "serve", "connector"], "kit_calls.py"),
        (["c0"], "sdk_calls.py"),
    ],
)
def test_a_connector_service_serves_the_calls_of_a_cluster(
    tmp_path: Path, bucket: Bucket, serve: list[str], calls_of: str
) -> None:
    """The service works over gRPC: a repeated create is one job and a retry another, values arrive as text without a
    shell, a delete cancels, and may be repeated.
    """
    port = free_port()
    with lab(tmp_path, bucket) as (place, environment):
        serve = [*serve, "--port", str(port), "--prometheus_port", str(free_port())]
        serve = [str(FLYTE / "bin" / serve[0]), *serve[1:]]
        with _run(serve, environment, tmp_path):
            until(lambda: _is_up(port))
            command = [str(FLYTE / "bin" / "python"), str(WORKFLOWS / calls_of), str(port)]
            calls = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
        assert calls.returncode == 0, calls.stderr[-2000:] + (tmp_path / "flyte.log").read_text()[-3000:]
        result = json.loads(calls.stdout.partition("RESULT ")[2])
        first, again, retried, slow = result["jobs"]
        sent = place.ask(f"jobs/{first}")["job"]["command"][3:]
        printed = place.ask(f"jobs/{first}/output")["output"]
        place.wait_until_nothing_bills()
        states = {job["id"]: job["state"] for job in place.ask("jobs")["jobs"]}
    assert first == again
    assert states == {first: "succeeded", retried: "succeeded", slow: "cancelled"}
    assert [one["phase"] for one in result["phases"]] == ["SUCCEEDED", "ABORTED", "SUCCEEDED"]
    assert result["phases"][0]["link"].endswith(f"/jobs/{first}")
    assert sent == ["0.1", "7", "true", "2026-11-22T08:00:00+00:00", "5400", "two words; $HOME {rate}"]
    assert f"given {sent}" in printed


def test_a_function_runs_on_the_vm(tmp_path: Path, bucket: Bucket) -> None:
    """The function runs in its container image, by flytekit's own entry point; its result is no file, and reaches the
    next task.
    """
    with lab(tmp_path, bucket) as (place, environment):
        run = ["run", "--raw-output-data-prefix", f"s3://{BUCKET}/flyte", "--destination-dir", str(tmp_path / "code")]
        (tmp_path / "code").mkdir()
        run += [str(WORKFLOWS / "function_pipeline.py"), "pipeline", "--count", "5"]
        with _run([str(FLYTE / "bin" / "pyflyte"), *run], environment, tmp_path) as program:
            assert program.wait(PATIENCE_S) == 0, (tmp_path / "flyte.log").read_text()[-4000:]
        (job,) = place.ask("jobs")["jobs"]
        place.wait_until_nothing_bills()
    assert (job["state"], job["image"]) == ("succeeded", "lab/flows:3")
    assert job["command"][0] == "pyflyte-fast-execute"
    assert "30" in (tmp_path / "flyte.log").read_text().splitlines()
