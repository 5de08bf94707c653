"""`costguard launch --like JOB PRESET` launches the same job on another preset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.cli.job_answers import DETAIL, DEV, JOB
from tests.cli.test_launch import QUOTE, run
from tests.scripted import Script, scripted

from costguard.cli.job.like import renamed
from costguard.cli.server import WrongUsage
from costguard.errors import CostguardError

CODE = {"sha256": "0" * 64, "size": 10, "files": 1, "commit": "1" * 40, "branch": "main", "diff": ""}
SPEC = {
    **DETAIL["spec"],
    "checkpoint": {
        "location": "gs://lab/run",
        "resume": "--from {checkpoint}",
        "framework": None,
        "pattern": "",
        "marker": "",
        "local": "/data/out",
        "keep": 5,
        "uploads_itself": False,
    },
    "metric": {"pattern": "val_loss (\\S+)", "better": "lower"},
    "environment": {"EPOCHS": "3", "OUT": "gs://lab/run/logs", "OTHER": "gs://lab/run-2"},
    "secrets": {"KEY": "projects/lab/secrets/key"},
    "inputs": [{"source": "gs://data/v7", "path": "/data/in"}],
    "outputs": [{"path": "/data/model", "destination": "gs://lab/model"}],
    "code": CODE,
    "setup": "pip install -e .",
    "work_seconds": 36_000,
    "deadline_in_seconds": None,
    "total_steps": 30_000,
    "mlflow_run": "0a1b2c",
    "wandb_run": "",
    "stacks": True,
    "drill": False,
    "on_hang": "restart",
    "when_late": "finish",
}
OLD = {**DETAIL, "as_of": "2026-11-22T12:00:00Z", "job": {**JOB, "state": "succeeded"}, "spec": SPEC}


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted() as made:
        yield made


def _launched(script: Script, *words: str, detail: dict[str, Any] = OLD) -> dict[str, Any]:
    script.answers = [(200, detail), (201, DETAIL)]
    done = run(script, "launch", "--like", "llama", *words)
    assert done.exit_code == 0, done.output
    body: dict[str, Any] = script.body()
    return body


def _suffix(body: dict[str, Any]) -> str:
    """The end of its new folder's name: the preset and four random digits."""
    location = str(body["checkpoint"]["location"])
    assert location.startswith("gs://lab/run-h100-")
    return location.removeprefix("gs://lab/run-")


def test_everything_of_the_job_is_copied_but_what_belongs_to_its_vm(script: Script) -> None:
    """The folders are new, and the command and variables name the new ones."""
    body = _launched(script, "h100")
    suffix = _suffix(body)
    assert script.asked[0][:2] == ("GET", "/api/v1/jobs/llama")
    assert body == {
        "preset": "h100",
        "name": "llama-h100",
        "owner": "ada@lab.example",
        "project": "lab",
        "command": ["python", "train.py", "--out", f"gs://lab/run-{suffix}"],
        "code": CODE,
        "setup": "pip install -e .",
        "environment": {"EPOCHS": "3", "OUT": f"gs://lab/run-{suffix}/logs", "OTHER": "gs://lab/run-2"},
        "secrets": {"KEY": "projects/lab/secrets/key"},
        "checkpoint": {
            "location": f"gs://lab/run-{suffix}",
            "resume": "--from {checkpoint}",
            "local": "/data/out",
            "keep": 5,
        },
        "metric": {"pattern": "val_loss (\\S+)"},
        "inputs": [{"source": "gs://data/v7", "path": "/data/in"}],
        "outputs": [{"path": "/data/model", "destination": f"gs://lab/model-{suffix}"}],
        "ceiling": "60",
        "total_steps": 30_000,
        "max_crashes": 3,
        "stacks": True,
        "on_hang": "restart",
    }


def test_it_says_what_was_copied_what_is_new_and_what_was_left_out(script: Script) -> None:
    """These lines go to standard error, so that --json stays JSON."""
    script.answers = [(200, OLD), (201, DETAIL)]
    done = run(script, "launch", "--like", "llama", "h100")
    suffix = _suffix(script.body())
    printed = done.stderr
    assert "Like job llama (j7k2m9q4): copied name, command, code, setup, environment, secrets, checkpoint" in printed
    assert f"New: its checkpoints go to gs://lab/run-{suffix}." in printed
    assert f"New: its results go to gs://lab/model-{suffix}." in printed
    assert "Left out: the zones, machine type, disk, boot image and way to buy of its VM; its expected time" in printed
    assert "its MLflow run" in printed


def test_two_launches_like_one_job_save_in_different_folders(script: Script) -> None:
    """Two runs in one folder would overwrite each other."""
    folders = {_launched(script, "h100")["checkpoint"]["location"] for _ in range(2)}
    assert len(folders) == 2


def test_typed_options_count_more_also_where_they_repeat_a_default(script: Script) -> None:
    """--keep 3 is the default, and the job keeps 5; of variables the typed ones are replaced one by one."""
    words = "h100 --keep 3 -e EPOCHS=9 -e SEED=1 --better higher --ceiling 20 --name mine --work 3h -p other"
    body = _launched(script, *words.split(), "--", "python", "other.py")
    assert body["checkpoint"]["keep"] == 3
    assert body["environment"]["EPOCHS"] == "9"
    assert body["environment"]["SEED"] == "1"
    assert body["environment"]["OTHER"] == "gs://lab/run-2"
    assert body["metric"] == {"pattern": "val_loss (\\S+)", "better": "higher"}
    assert (body["ceiling"], body["name"], body["work_hours"], body["project"]) == ("20", "mine", 3.0, "other")
    assert body["command"] == ["python", "other.py"]


def test_a_typed_folder_takes_the_place_of_the_old_one_everywhere(script: Script) -> None:
    """The command and the variables that were copied follow it."""
    body = _launched(script, "h100", "--checkpoint", "gs://lab/new")
    assert body["checkpoint"]["location"] == "gs://lab/new"
    assert body["checkpoint"]["keep"] == 5
    assert body["command"][-1] == "gs://lab/new"
    assert body["environment"]["OUT"] == "gs://lab/new/logs"


def test_continue_keeps_the_folder(script: Script) -> None:
    """Nothing is renamed then."""
    body = _launched(script, "h100", "--continue")
    assert body["checkpoint"]["location"] == "gs://lab/run"
    assert body["command"][-1] == "gs://lab/run"


@pytest.mark.parametrize(
    ("detail", "says"),
    [
        ({**OLD, "job": {**JOB, "state": "running"}}, "is not over, and two jobs that save in gs://lab/run overwrite"),
        ({**OLD, "spec": {**SPEC, "checkpoint": {"location": "/data/out"}}}, "saves on the disk of its own VM"),
        ({**OLD, "spec": {**SPEC, "checkpoint": None}}, "saves no checkpoints"),
    ],
)
def test_continue_is_refused_where_it_would_lose_or_overwrite(
    script: Script, detail: dict[str, Any], says: str
) -> None:
    """The message says why, and nothing is launched."""
    script.answers = [(200, detail)]
    done = run(script, "launch", "--like", "llama", "--continue", "h100")
    assert isinstance(done.exception, WrongUsage)
    assert says in done.exception.message
    assert len(script.asked) == 1  # nothing was launched


def test_continue_alone_is_refused(script: Script) -> None:
    """It would go on from no job."""
    done = run(script, "launch", "--continue", "h100")
    assert isinstance(done.exception, WrongUsage)
    assert script.asked == []


def test_a_deadline_is_copied_while_it_is_ahead(script: Script) -> None:
    """A deadline that counts from the launch is copied in any case; a typed one takes the place of both."""
    ahead = {**OLD, "job": {**JOB, "state": "succeeded", "deadline": "2999-01-01T00:00:00Z"}}
    assert _launched(script, "h100", detail=ahead)["deadline"] == "2999-01-01T00:00:00Z"
    assert "deadline" not in _launched(script, "h100")
    relative = {**ahead, "spec": {**SPEC, "deadline_in_seconds": 64_800}}
    body = _launched(script, "h100", detail=relative)
    assert body["deadline_in_hours"] == 18.0
    assert "deadline" not in body
    typed = _launched(script, "h100", "--deadline", "5h", detail=relative)
    assert typed["deadline_in_hours"] == 5.0


def test_a_vm_to_work_on_is_copied_as_one(script: Script) -> None:
    """It has no command and no checkpoints."""
    dev = {**DEV, "spec": {**SPEC, "checkpoint": None, "metric": None, "code": None, "inputs": [], "outputs": []}}
    dev["job"] = {**DEV["job"], "command": [], "name": ""}
    assert _launched(script, "t4", detail=dev)["kind"] == "dev"


def test_an_unknown_job_launches_nothing(script: Script) -> None:
    """The server's message is shown."""
    script.answers = [(404, {"detail": "There is no job 'fb12'.", "next": "GET /api/v1/jobs lists all jobs."})]
    done = run(script, "launch", "--like", "fb12", "h100")
    assert isinstance(done.exception, CostguardError)
    assert "There is no job 'fb12'." in str(done.exception)
    assert len(script.asked) == 1


def test_a_quote_and_a_dry_run_price_the_copied_job(script: Script) -> None:
    """Both send what a launch would."""
    script.answers = [(200, OLD), (200, {**QUOTE, "refusals": []})] * 2
    for words in (["quote", "--like", "llama", "h100"], ["launch", "--like", "llama", "h100", "--dry-run"]):
        run(script, *words)
        assert script.asked[-1][1] == "/api/v1/quotes"
        assert script.body()["command"][:2] == ["python", "train.py"]
        assert script.body()["preset"] == "h100"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("gs://lab/run-7", "gs://lab/run-7-x"),
        ("gs://lab/run-7/", "gs://lab/run-7-x"),
        ("gs://lab", "gs://lab/x"),
        ("s3://lab/a/b/last.pt", "s3://lab/a/b-x/last.pt"),
        ("gs://lab/last.pt", "gs://lab/x/last.pt"),
    ],
)
def test_a_new_folder_stands_next_to_the_old_one(place: str, expected: str) -> None:
    """A file keeps its name, since trainers look for it."""
    assert renamed(place, "x") == expected
