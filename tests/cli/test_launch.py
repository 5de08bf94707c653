"""The command `costguard launch` asks, asks again, waits, and shows."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.cli.job_answers import DETAIL, DEV, JOB, SSH
from tests.scripted import Script, scripted
from typer.testing import CliRunner, Result

from costguard.cli.app import app
from costguard.cli.job.jobs import follow, is_done
from costguard.cli.job.quotes import show_quote
from costguard.cli.server import ServerClient, WrongUsage
from costguard.errors import CostguardError, ServerUnreachable
from costguard_client.steps import TRIES

PROBLEM = {
    "detail": "The job cannot be taken in.",
    "next": "Nothing was launched.",
    "errors": [
        {"where": "body.overrides.zones.0", "message": "There is no zone mars-a."},
        {"where": "body.checkpoint.resume", "message": "There is no {checkpoint} in it."},
        {"where": "body.preset", "message": "There is no preset b300."},
        {"where": "body.budget", "message": "Budget lab is spent."},
    ],
}


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted() as made:
        yield made


def run(script: Script, *arguments: str, owner: str = "ada@lab.example") -> Result:
    return CliRunner().invoke(app, arguments, env={"COSTGUARD_URL": script.url, "COSTGUARD_OWNER": owner})


def test_everything_that_was_asked_for_is_sent(script: Script) -> None:
    """The command keeps its own options after `--`; what was left out is left to the server."""
    script.answers = [(201, DETAIL)]
    options = (
        "launch a100 --image lab/train:7 --checkpoint gs://lab/run --framework hugging-face --env EPOCHS=3 --env X=a=b"
        " --secret KEY=projects/lab/secrets/key --zone us-central1-a --zone us-central1-b --buy demand --ceiling 12.50"
        " --deadline 2026-11-22T08:00 --work 30h --max-crashes 0 --max-run 12 --disk 200"
    )
    done = run(
        script, *options.split(), "--resume", "--from {checkpoint}", "--", "python", "train.py", "--zone", "moon"
    )
    assert done.exit_code == 0, done.output
    assert "llama  j7k2m9q4  running" in done.output
    assert "costguard cancel j7k2m9q4" in done.output
    body = script.body()
    assert body["command"] == ["python", "train.py", "--zone", "moon"]
    assert body["environment"] == {"EPOCHS": "3", "X": "a=b"}
    assert body["secrets"] == {"KEY": "projects/lab/secrets/key"}
    assert body["overrides"] == {
        "zones": ["us-central1-a", "us-central1-b"],
        "buy": "demand",
        "disk_gib": 200,
        "max_run_hours": 12.0,
    }
    assert body["checkpoint"] == {
        "location": "gs://lab/run",
        "resume": "--from {checkpoint}",
        "framework": "hugging-face",
    }
    expected = ("12.50", "2026-11-22T08:00:00+00:00", 30.0, 0, "ada@lab.example")
    names = ("ceiling", "deadline", "work_hours", "max_crashes", "owner")
    assert tuple(body[name] for name in names) == expected
    assert not {"max_preemptions", "kind", "better", "when_late"} & set(body)
    method, path, headers, _ = script.asked[0]
    assert (method, path, headers["Costguard-Client"]) == ("POST", "/api/v1/jobs", "cli")


def test_a_lost_answer_is_asked_for_again_under_the_same_key(script: Script) -> None:
    """The result is one job, however often the line breaks."""
    script.answers = [None, None, (200, DETAIL)]
    pauses: list[float] = []
    made = ServerClient(script.url, {}, pauses.append).post("jobs", body={"preset": "t4"}, key="k1")
    assert made == DETAIL
    assert [headers["Idempotency-Key"] for _, _, headers, _ in script.asked] == ["k1"] * 3
    assert pauses == [1, 2]


def test_without_a_key_nothing_is_asked_twice(script: Script) -> None:
    """A cancel says who asked, and when the line breaks nobody knows; the person decides."""
    script.answers = [None]
    with pytest.raises(ServerUnreachable):
        ServerClient(script.url, {}, lambda _: None).post("jobs", "j1", "cancel", body={})
    assert len(script.asked) == 1


def test_a_launch_that_nobody_answers_says_how_to_ask_again() -> None:
    """The message has the key that it was asked under."""
    url = "http://127.0.0.1:1"
    done = CliRunner().invoke(
        app, ["launch", "t4", "--key", "k7"], env={"COSTGUARD_URL": url, "COSTGUARD_OWNER": "a@b.c"}
    )
    assert isinstance(done.exception, ServerUnreachable)
    assert "Repeating the command with --key k7 launches nothing twice" in done.exception.what_next


def test_every_problem_is_shown_by_its_option(script: Script) -> None:
    """The option is shown as it was typed, not as the field is called."""
    script.answers = [(422, PROBLEM)]
    done = run(script, "launch", "b300", "--", "true")
    assert isinstance(done.exception, WrongUsage)
    assert done.exception.message.splitlines() == [
        "--zone: There is no zone mars-a.",
        "--resume: There is no {checkpoint} in it.",
        "PRESET: There is no preset b300.",
        "Budget lab is spent.",
    ]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--env", "TOKEN"), "expected NAME=VALUE"),
        (("--env", "A=1", "--env", "A=2"), "A is given twice"),
        (("--secret", "=hush-hush"), "expected NAME=VALUE"),
        (("--deadline", "soon"), "is not a time"),
    ],
)
def test_what_is_wrong_by_itself_is_not_sent(script: Script, option: tuple[str, ...], said: str) -> None:
    """A value that may be a secret is not repeated."""
    done = run(script, "launch", "t4", *option, "--", "true")
    assert done.exit_code == 2
    assert said in " ".join(done.output.replace("│", " ").split())
    assert "hush-hush" not in done.output
    assert script.asked == []


def test_how_to_resume_needs_a_place_to_resume_from(script: Script) -> None:
    """The option would be passed over in silence otherwise."""
    done = run(script, "launch", "t4", "--resume", "--from {checkpoint}", "--", "true")
    assert isinstance(done.exception, WrongUsage)
    assert "--checkpoint" in done.exception.what_next


def test_a_job_is_waited_for_until_it_is_over(script: Script) -> None:
    """Each change is printed once, and a server that restarts is waited for."""
    recovers = {**DETAIL, "job": {**JOB, "state": "recovering", "reason": "It was preempted."}}
    failed = {**DETAIL, "job": {**JOB, "state": "failed", "reason": "It crashed."}}
    lost = [None] * TRIES
    script.answers = [(200, DETAIL), (200, recovers), *lost, *lost, (200, recovers), (200, failed)]
    lines: list[str] = []
    server = ServerClient(script.url, {}, lambda _: None)
    made = follow(server, "job", DETAIL, lines.append, lambda: None, is_done)
    assert made["job"]["state"] == "failed"
    assert lines[:2] == ["llama: running. Attempt 2 runs in us-central1-b.", "llama: recovering. It was preempted."]
    assert "The job goes on" in lines[2]
    assert lines[3:] == ["llama: failed. It crashed."]


@pytest.mark.parametrize(("state", "code"), [("failed", 1), ("cancelled", 1), ("succeeded", 0)])
def test_the_exit_code_of_a_wait_is_the_jobs(script: Script, state: str, code: int) -> None:
    """A script can go on after it, or not."""
    script.answers = [(201, {**DETAIL, "job": {**JOB, "state": state}})]
    assert run(script, "launch", "t4", "--wait", "--json", "--", "true").exit_code == code


def test_a_dev_vm_comes_with_how_to_reach_it(script: Script) -> None:
    """A shell and a notebook, once it is up; before, how to ask."""
    provisioning = {**DEV, "job": {**DEV["job"], "state": "provisioning"}, "ssh_command": None}
    script.answers = [(201, DEV), (201, provisioning)]
    shown = run(script, "launch", "t4", "--dev", "--wait").output
    assert SSH in shown
    assert f"{SSH} -- -L 8888:localhost:8888, then http://localhost:8888" in shown
    assert script.body()["kind"] == "dev"
    assert "once it is up: costguard job d7k2m9q4" in run(script, "launch", "t4", "--dev").output


def test_a_refusal_that_is_no_usage_is_shown_in_the_servers_words(script: Script) -> None:
    """The message says what to do next."""
    script.answers = [(409, {"detail": "It succeeded already.", "next": "Nothing is left to cancel."})]
    done = run(script, "cancel", "j7k2m9q4", "--reason", "wrong data")
    assert isinstance(done.exception, CostguardError)
    assert str(done.exception) == "It succeeded already. Nothing is left to cancel."
    assert script.asked[0][1] == "/api/v1/jobs/j7k2m9q4/cancel"
    assert script.body() == {"by": "ada@lab.example", "reason": "wrong data"}


def test_never_mind_takes_a_cancel_after_a_checkpoint_back(script: Script) -> None:
    """A request of its own; together with what it would take back it is refused, and nothing is sent."""
    script.answers = [(200, {"job": {"title": "bert"}})]
    done = run(script, "cancel", "j7k2m9q4", "--never-mind")
    assert "bert goes on." in done.output
    assert script.asked[0][1] == "/api/v1/jobs/j7k2m9q4/never-mind"
    assert script.body() == {"by": "ada@lab.example"}
    refused = run(script, "cancel", "j7k2m9q4", "--never-mind", "--after-checkpoint")
    assert refused.exit_code == 2
    assert len(script.asked) == 1


SPOT_PARTS = {"machine": "0.2", "gpu": "0.9", "disk": "0.0075", "address": "0.0025"}
USUAL_PARTS = {"machine": "0.5", "gpu": "2.9", "disk": "0.005", "address": "0.005"}
QUOTE: dict[str, Any] = {
    "preset": "a100",
    "hours": "40",
    "machine": {
        "machine_type": "a2-highgpu-1g",
        "vcpus": 12,
        "memory_mib": 87040,
        "gpu_type": "nvidia-tesla-a100",
        "gpu_count": 1,
        "disk_gib": 100,
    },
    "places": [
        {
            "zone": "us-central1-a",
            "spot": {
                "machine": "0.2",
                "gpu": "0.9",
                "disk": "0.0075",
                "address": "0.0025",
                "total": "1.11",
                "unpriced": "",
            },
            "on_demand": {
                "machine": "0.5",
                "gpu": "2.9",
                "disk": "0.005",
                "address": "0.005",
                "total": "3.41",
                "unpriced": "",
            },
            "note": "",
        },
        {
            "zone": "us-central1-b",
            "spot": {"machine": None, "gpu": None, "disk": None, "total": None, "unpriced": "no price"},
            "on_demand": {
                "machine": "0.5",
                "gpu": "2.9",
                "disk": "0.005",
                "address": "0.005",
                "total": "3.41",
                "unpriced": "",
            },
            "note": "out of stock 5 min ago",
        },
    ],
    "first": {"zone": "us-central1-a", "provisioning_model": "spot", "rate_per_hour": "1.11", "cost": "44.40"},
    "cheapest": {"zone": "us-central1-a", "provisioning_model": "spot", "rate_per_hour": "1.11", "cost": "44.40"},
    "saving_percent": 67,
    "moves": [{"note": "1.2 TiB from s3://acme-data/v7: about $110.59 of transfer on the AWS side."}],
    "budgets": [{"name": "lab", "period": "month", "limit": "100", "left": "20", "left_after": "-24.40"}],
    "warnings": ["1 file lies at gs://lab/run that no layout recognises (a.txt)."],
    "question": "",
    "refusals": [{"where": "body.preset", "message": "Budget lab is spent."}],
}


def test_a_quote_shows_each_zone_and_what_is_left_of_the_budgets() -> None:
    """A zone without a price says so, and why a launch would be refused stands last."""
    out = io.StringIO()
    show_quote(Console(file=out, width=200), QUOTE)
    shown = out.getvalue()
    first, second = (line.split() for line in shown.splitlines() if line.startswith("us-central1-"))
    assert first == ["us-central1-a", "$1.11", "$3.41", "$0.900", "$0.200", "$0.008", "$0.0025"]
    assert second[:3] == ["us-central1-b", "unpriced", "$3.41"]
    assert "out of stock 5 min ago" in shown
    assert "Now: $44.40 for 40 hours in us-central1-a, Spot, $1.11 an hour" in shown
    assert "Cheapest" not in shown
    assert "Spot saves 67%" in shown
    assert "Budget lab: $20.00 of $100.00 left this month, $24.40 over after this." in shown
    assert "WARNING: 1 file lies at gs://lab/run that no layout recognises (a.txt)." in shown
    assert "1.2 TiB from s3://acme-data/v7: about $110.59 of transfer on the AWS side." in shown
    assert shown.rstrip().endswith("WOULD BE REFUSED: Budget lab is spent.")
    out = io.StringIO()
    unknown = {**QUOTE["budgets"][0], "left_after": None}
    show_quote(Console(file=out, width=200), {**QUOTE, "machine": None, "places": [], "budgets": [unknown]})
    assert "$20.00 of $100.00 left this month.\n" in out.getvalue()
    spent = {**QUOTE["budgets"][0], "left": "-7.07"}
    show_quote(Console(file=out, width=200), {**QUOTE, "budgets": [spent]})
    assert "$7.07 over the $100.00 of this month, $24.40 over after this.\n" in out.getvalue()


def test_work_directory_is_uploaded_before_the_launch(script: Script, tmp_path: Path) -> None:
    """The upload is made once: where the server has it already, only the job is sent.

    A lost answer is asked for again.
    """
    (tmp_path / "train.py").write_text("print('step 1')")
    missing = {"detail": "There is no archive.", "next": "Upload it.", "errors": []}
    script.answers = [(404, missing), None, (200, {}), (201, DETAIL)]
    done = run(script, "launch", "t4", "--workdir", str(tmp_path), "--", "python", "train.py")
    assert done.exit_code == 0, done.output
    assert [method for method, *_ in script.asked] == ["GET", "PUT", "PUT", "POST"]
    code = script.body()["code"]
    assert {path for _, path, *_ in script.asked[:3]} == {f"/api/v1/code/{code['sha256']}"}
    content = script.body(2)
    assert len(content) == code["size"]
    assert hashlib.sha256(gzip.decompress(content)).hexdigest() == code["sha256"]
    assert f"{tmp_path.name}: 1 file, 1 KiB to upload." in done.output
    script.answers = [(200, {}), (201, DETAIL)]
    run(script, "launch", "t4", "--workdir", str(tmp_path), "--", "python", "train.py")
    assert [method for method, *_ in script.asked[4:]] == ["GET", "POST"]
    assert script.body()["code"] == code


def test_server_without_a_place_for_code_says_the_cure(script: Script, tmp_path: Path) -> None:
    """The cure comes at once, and in the server's own words: the setting to change. It is not asked again."""
    (tmp_path / "train.py").write_text("print('step 1')")
    cure = 'Name a bucket in its settings: [jobs] code = "gs://bucket/code".'
    script.answers = [(409, {"detail": "This server has no place for code.", "next": cure, "errors": []})]
    done = run(script, "launch", "t4", "--workdir", str(tmp_path), "--", "python", "train.py")
    assert isinstance(done.exception, CostguardError)
    assert (done.exception.message, done.exception.what_next) == ("This server has no place for code.", cure)
    assert len(script.asked) == 1


def test_work_directory_that_cannot_travel_is_refused_before_anything_is_sent(script: Script, tmp_path: Path) -> None:
    """The refusal says what to change."""
    (tmp_path / "loop").symlink_to("loop")
    done = run(script, "launch", "t4", "--workdir", str(tmp_path), "--", "python", "train.py")
    assert isinstance(done.exception, WrongUsage)
    assert "--workdir: " in done.exception.message
    assert "loop is a link that leads to itself" in done.exception.message
    assert script.asked == []


@pytest.mark.parametrize(
    ("deadline", "sent"),
    [
        ("18h", {"deadline_in_hours": 18.0}),
        ("1h30m", {"deadline_in_hours": 1.5}),
        ("2026-11-22T08:00Z", {"deadline": "2026-11-22T08:00:00+00:00"}),
    ],
)
def test_a_deadline_is_a_moment_or_a_span_from_the_launch(
    script: Script, deadline: str, sent: dict[str, object]
) -> None:
    """A span is sent as such, so that the server's clock counts it."""
    script.answers = [(200, DETAIL)]
    env = {"COSTGUARD_URL": script.url, "COSTGUARD_OWNER": "a@b.c"}
    assert CliRunner().invoke(app, ["launch", "t4", "--deadline", deadline, "--", "true"], env=env).exit_code == 0
    body = script.body()
    assert {name: value for name, value in body.items() if name.startswith("deadline")} == sent
