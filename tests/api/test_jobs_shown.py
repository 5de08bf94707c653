"""The API shows jobs, their attempts and interruptions, zones, presets and recoveries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.conftest import deps_of
from tests.api.rows import NOW
from tests.jobs import job_rows
from tests.jobs.job_service import RULES

from costguard.api.app import create_app
from costguard.api.job.schemas import DrillOut
from costguard.db.transaction import Database
from costguard.jobs.rows import agent_rows
from costguard.jobs.rows import job_rows as jobs
from costguard.jobs.rows.recovery import interruptions
from costguard.model.attempt import AgentState, AttemptState, Exit, Interruption, Notice, Outcome
from costguard.model.instance import ProvisioningModel
from costguard.model.job import CheckpointPlan, JobKind, JobState, SeenCheckpoint
from costguard.model.launch import AddressChoice
from costguard.model.money import Money
from costguard.model.reported.drill import Drill, DrillResult, DrillState
from costguard.trackers import rows as tracker_rows

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
ID = "j7k2m9q4"


@pytest.fixture
def with_job(database: Database) -> Database:
    """A job that was preempted an hour ago at step 600, resumed at 500, and is at step 900 now."""
    with database.write() as connection:
        rows.prices(connection)
        job_rows.added(connection, created_at=NOW - 3 * HOUR)
        jobs.set_state(connection, ID, JobState.RUNNING, "It runs in us-central1-b.", None, NOW)
        first = job_rows.attempt(connection, number=1, state=AttemptState.OVER, outcome=Outcome.PREEMPTED, ended_at=NOW)
        agent = AgentState(NOW - HOUR, 1, started_at=NOW - 2 * HOUR, step=600, step_at=NOW - HOUR, output="a\nb\n")
        agent_rows.hear(connection, first.id, agent)
        lost = Interruption(
            first.id,
            ID,
            1,
            Outcome.PREEMPTED,
            NOW - HOUR,
            NOW - HOUR + timedelta(milliseconds=700),
            Notice.NOTICE,
            NOW - HOUR + timedelta(seconds=2),
            NOW - HOUR + 4 * MINUTE,
            6 * MINUTE,
            Money.of("0.02"),
        )
        interruptions.add(connection, lost)
        second = job_rows.attempt(
            connection,
            address=AddressChoice(False, "subnetwork train of us-central1 has Cloud NAT nat-1"),
            number=2,
            zone="us-central1-b",
            resume_from="gs://lab/run/checkpoint-500",
            resume_step=500,
            resume_why="attempt 1 failed at once",
            state=AttemptState.RUNNING,
            gce_id="71",
            made_at=NOW - HOUR,
        )
        began = NOW - 48 * MINUTE
        running = AgentState(NOW, 1, started_at=began, step=900, step_at=NOW, machine={"cpu": 0.5}, output="c\n")
        agent_rows.hear(connection, second.id, running)
        vm = rows.instance(connection, "cg-j7k2m9q4-2", gce_id="71", job=ID)
        rows.lifetime(connection, vm, NOW - HOUR, job=ID, provisioning_model="spot")
        for step, minutes in ((500, 70), (800, 12)):
            seen = SeenCheckpoint(
                NOW, f"gs://lab/run/checkpoint-{step}", step, NOW - minutes * MINUTE, torn=("x: torn",)
            )
            jobs.save_look(connection, ID, seen)
    return database


def test_a_job_is_shown_with_all_that_happened_to_it(with_job: Database, client: TestClient) -> None:
    """The job has its attempts, its losses, its pace and cost, and the work at risk now."""
    answer = client.get(f"/api/v1/jobs/{ID}").json()
    job = answer["job"]
    assert (job["state"], job["attempts"], job["preemptions"], job["crashes"], job["step"]) == ("running", 2, 1, 0, 900)
    assert job["cost"] == {"amount": "0.165", "currency": "USD", "complete": True}
    assert job["place"] == {
        "attempt": 2,
        "name": "cg-j7k2m9q4-2",
        "zone": "us-central1-b",
        "provisioning_model": "spot",
        "gce_id": "71",
        "state": "running",
        "rate_per_hour": "0.25",
    }
    first, second = answer["attempts"]
    assert (first["outcome"], first["step"], first["machine"]) == ("preempted", 600, {})
    assert (second["resume_step"], second["started_at"], second["machine"]) == (
        500,
        "2026-11-20T11:12:00Z",
        {"cpu": 0.5},
    )
    assert (first["resume_why"], second["resume_why"]) == ("", "attempt 1 failed at once")
    (lost,) = answer["interruptions"]
    assert (lost["attempt"], lost["noticed_by"], lost["lost_seconds"], lost["lost_cost"]) == (1, "notice", 360, "0.02")
    assert answer["lost"] == {"seconds": 360, "cost": "0.02", "from_zero": 0}
    assert answer["pace"] == {"steps": 900, "per_hour": "500.0", "cost_per_1000_steps": "0.183333333"}
    assert answer["work_at_risk"] == {"seconds": 720, "cost": "0.05", "since": "2026-11-20T11:48:00Z"}
    assert (answer["checkpoint"]["step"], answer["checkpoint"]["torn"]) == (800, ["x: torn"])
    assert [checkpoint["step"] for checkpoint in answer["checkpoints"]] == [500, 800]
    assert answer["next"] == (
        "If its VM were preempted now, it would resume from step 800, gs://lab/run/checkpoint-800: "
        "12 min of work ($0.05) would be done again."
    )
    shell = "gcloud compute ssh cg-j7k2m9q4-2 --zone us-central1-b --project lab --tunnel-through-iap"
    assert answer["ssh_command"] == shell
    nat = {"is_external": False, "why": "subnetwork train of us-central1 has Cloud NAT nat-1"}
    assert (first["address"], second["address"]) == (None, nat)
    assert answer["notebook_command"] is None
    assert client.get(f"/api/v1/jobs/{ID}/attempts").json()["attempts"] == answer["attempts"]


def test_the_output_is_kept_with_each_attempt(with_job: Database, client: TestClient) -> None:
    """The output is that of the latest attempt by default."""
    last = client.get(f"/api/v1/jobs/{ID}/output").json()
    assert (last["attempt"], last["output"], last["log"]) == (2, "c\n", "/var/log/costguard/cg-j7k2m9q4-2.1.log")
    assert client.get(f"/api/v1/jobs/{ID}/output", params={"attempt": 1}).json()["output"] == "a\nb\n"
    missing = client.get(f"/api/v1/jobs/{ID}/output", params={"attempt": 3})
    assert (missing.status_code, "It has 2 so far" in missing.json()["next"]) == (404, True)
    assert client.get(f"/api/v1/jobs/{ID}/output", params={"attempt": 0}).status_code == 422
    with with_job.write() as connection:
        job_rows.added(connection, "jnew")
    assert client.get("/api/v1/jobs/jnew/output").json()["attempt"] is None


@pytest.mark.parametrize("path", ["", "/attempts", "/output"])
def test_what_is_no_job_is_not_found(client: TestClient, path: str) -> None:
    """The answer says where all jobs are listed."""
    answer = client.get(f"/api/v1/jobs/j0{path}")
    assert (answer.status_code, answer.json()["next"]) == (404, "GET /api/v1/jobs lists all jobs.")


def test_jobs_are_filtered_and_come_in_pages(with_job: Database, client: TestClient) -> None:
    """The newest first, each once, with as many filters as are wanted."""
    with with_job.write() as connection:
        for number in range(3):
            job_rows.added(connection, f"jb{number}", created_at=NOW - number * MINUTE, owner="bob@lab.example")
        jobs.set_state(connection, "jb1", JobState.FAILED, "It crashed.", None, NOW)

    def ids(**query: Any) -> list[str]:
        return [job["id"] for job in client.get("/api/v1/jobs", params=query).json()["jobs"]]

    assert ids() == ["jb0", "jb1", "jb2", ID]
    assert ids(open=True) == ["jb0", "jb2", ID]
    assert ids(open=False) == ids(state="failed") == ["jb1"]
    assert ids(owner="Bob@lab.example", state=["failed", "queued"]) == ["jb0", "jb1", "jb2"]
    assert ids(preset="a100") == ids(kind="dev") == ids(project="other") == []
    first = client.get("/api/v1/jobs", params={"limit": 2}).json()
    rest = client.get("/api/v1/jobs", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [job["id"] for job in first["jobs"] + rest["jobs"]] == ids()
    assert rest["next_cursor"] is None
    for wrong in ({"state": "lost"}, {"cursor": "x"}, {"limit": 0}, {"kinds": "dev"}):
        assert client.get("/api/v1/jobs", params=wrong).status_code == 422


def test_a_development_vm_tells_how_to_reach_it(database: Database, client: TestClient) -> None:
    """The VM has a shell, and the port of a notebook, once it is there."""
    with database.write() as connection:
        job_rows.added(connection, kind=JobKind.DEV, command=(), checkpoint=None)
        job_rows.attempt(connection, state=AttemptState.BOOTING, gce_id="71")
    answer = client.get(f"/api/v1/jobs/{ID}").json()
    shell = "gcloud compute ssh cg-j7k2m9q4-1 --zone us-central1-a --project lab"
    assert (answer["ssh_command"], answer["notebook_command"]) == (shell, f"{shell} -- -L 8888:localhost:8888")


def test_an_attempt_that_crashed_tells_how(database: Database, client: TestClient) -> None:
    """The agent's last report is shown with the outcome; a job that starts from zero says what comes next."""
    with database.write() as connection:
        job_rows.added(connection, checkpoint=None)
        jobs.set_state(connection, ID, JobState.RECOVERING, "It crashed.", NOW + MINUTE, NOW)
        made = job_rows.attempt(connection, state=AttemptState.OVER, outcome=Outcome.CRASHED, reason="code 1")
        agent_rows.hear(connection, made.id, AgentState(NOW, 1, exit=Exit("exited", NOW, 1)))
    answer = client.get(f"/api/v1/jobs/{ID}").json()
    assert answer["attempts"][0]["disk"] is None
    assert answer["attempts"][0]["exit"] == {
        "reason": "exited",
        "code": 1,
        "signal": None,
        "error": "",
        "repeats": False,
        "asked": "",
        "at": "2026-11-20T12:00:00Z",
    }
    assert (answer["job"]["crashes"], answer["ssh_command"], answer["pace"]["per_hour"]) == (1, None, None)
    assert answer["next"] == "Its next VM will start from the beginning, since it saves no checkpoints."


@pytest.mark.parametrize(
    ("state", "location", "attempt", "words"),
    [
        (JobState.QUEUED, "gs://b/r", {}, "Its next VM will resume from the newest complete checkpoint at gs://b/r"),
        (JobState.QUEUED, "/ck", {}, "Its next VM will start from the beginning, on a disk of its own."),
        (JobState.PROVISIONING, "gs://b/r", {"state": AttemptState.BOOTING}, "Its VM will start from the beginning."),
        (
            JobState.PROVISIONING,
            "gs://b/r",
            {"state": AttemptState.ASKED, "resume_from": "gs://b/r/7", "resume_step": 7},
            "Its VM will resume from step 7, gs://b/r/7.",
        ),
        (JobState.RUNNING, "/ck", {"state": AttemptState.RUNNING}, "If its VM is preempted, the same one is started"),
        (JobState.RECOVERING, "/ck", {"state": AttemptState.RESTING}, "Its VM is started again, and goes on"),
        (JobState.SUCCEEDED, "/ck", {"state": AttemptState.ENDING, "outcome": Outcome.SUCCEEDED}, ""),
    ],
)
def test_what_comes_next_is_said(
    sqlite_database: Database, state: JobState, location: str, attempt: dict[str, Any], words: str
) -> None:
    """The next step is shown for a requested VM, for the one that would follow, and for one whose disk holds the
    checkpoints.
    """
    with sqlite_database.write() as connection:
        job_rows.added(connection, checkpoint=CheckpointPlan(location))
        jobs.set_state(connection, ID, state, "So it is.", None, NOW)
        if attempt:
            made = job_rows.attempt(connection, **attempt)
            agent_rows.hear(connection, made.id, AgentState(NOW, 1, started_at=NOW - HOUR))
    answer = TestClient(create_app(deps_of(sqlite_database))).get(f"/api/v1/jobs/{ID}").json()
    assert answer["next"].startswith(words)
    assert bool(answer["next"]) == bool(words)
    assert answer["work_at_risk"] is None


def test_places_show_what_their_scores_rest_on(with_job: Database, client_with: Callable[..., TestClient]) -> None:
    """Every zone of a preset, and what happened in each."""
    with with_job.write() as connection:
        third: dict[str, Any] = {
            "number": 3,
            "zone": "europe-west4-a",
            "provisioning_model": ProvisioningModel.STANDARD,
        }
        ended: dict[str, Any] = {"state": AttemptState.OVER, "outcome": Outcome.STOCKOUT, "ended_at": NOW - 30 * MINUTE}
        job_rows.attempt(connection, **third, **ended)
    answer = client_with(rules=RULES).get("/api/v1/places").json()
    assert (answer["stockout_half_life_seconds"], answer["preemption_half_life_seconds"]) == (1800, 21600)
    west, lost, quiet = answer["places"]
    assert (west["zone"], west["provisioning_model"], west["presets"], west["stockouts"]) == (
        "europe-west4-a",
        "standard",
        [],
        "0.500",
    )
    assert west["events"] == [{"at": "2026-11-20T11:30:00Z", "outcome": "stockout"}]
    assert (lost["zone"], lost["presets"], lost["stockouts"]) == ("us-central1-a", ["t4"], "0.000")
    assert float(lost["preemptions"]) > 0.8
    assert (quiet["zone"], quiet["preemptions"], quiet["events"]) == ("us-central1-b", "0.000", [])


def test_recoveries_tell_how_soon_work_went_on(with_job: Database, client: TestClient) -> None:
    """The spans last from the preemption until it was noticed, the next VM was requested, and the command ran again."""
    answer = client.get("/api/v1/recoveries").json()
    assert (answer["interruptions_total"], answer["by_outcome"], answer["noticed_first"]) == (
        1,
        {"preempted": 1},
        {"notice": 1},
    )
    assert (answer["lost_seconds"], answer["lost_cost"], answer["from_zero"]) == (360, "0.02", 0)
    spans = {span["what"]: span for span in answer["spans"]}
    assert [spans[what]["median_seconds"] for what in ("noticed", "requested", "resumed")] == [
        "0.700",
        "2.000",
        "240.000",
    ]
    filled = [bucket for bucket in spans["resumed"]["buckets"] if bucket["count"]]
    assert filled == [{"up_to_seconds": 300, "count": 1}]
    (one,) = answer["interruptions"]
    assert (one["job"], one["title"], one["zone"], one["attempt"]) == (ID, "resnet", "us-central1-a", 1)
    assert client.get("/api/v1/recoveries", params={"days": 0}).status_code == 422


def test_without_any_job_nothing_is_known_of_recoveries(client: TestClient) -> None:
    """Figures that are not known are null, never 0."""
    answer = client.get("/api/v1/recoveries").json()
    assert answer["interruptions"] == []
    assert [span["median_seconds"] for span in answer["spans"]] == [None, None, None]


def test_presets_say_how_they_are_launched(client_with: Callable[..., TestClient]) -> None:
    """The preset lists the permitted overrides; one that cannot be launched says so."""
    t4, other = client_with(rules=RULES).get("/api/v1/presets").json()["presets"]
    assert (t4["launch"]["machine_type"], t4["launch"]["zones"]) == (
        "n1-standard-4",
        ["us-central1-a", "us-central1-b"],
    )
    assert (t4["overrides"], t4["dev_image"]) == (["zones", "buy"], "projects/ml/global/images/family/dev")
    assert (other["launch"], other["overrides"]) == (None, [])


def test_an_attempt_shows_its_disk_and_its_image(client: TestClient, database: Database) -> None:
    """Typed, so that a program need not know the agent's words."""
    digest = "sha256:" + "a" * 64
    with database.write() as connection:
        job_rows.added(connection, image="acme/train:7")
        made = job_rows.attempt(connection, state=AttemptState.RUNNING)
        machine = {"disk_free_bytes": 0, "disk_total_bytes": 100 << 30, "disk_mount": "/"}
        agent_rows.hear(connection, made.id, AgentState(NOW, 1, machine=machine, image_digest=digest))
    answer = client.get(f"/api/v1/jobs/{ID}").json()
    assert answer["attempts"][0]["disk"] == {
        "state": "full",
        "mount": "/",
        "free_bytes": 0,
        "total_bytes": 100 << 30,
        "text": "disk full: 0 bytes left on /",
    }
    assert answer["job"]["image_digest"] == answer["attempts"][0]["image_digest"] == digest


def test_a_job_shows_how_logging_to_its_tracker_stands(database: Database, client: TestClient) -> None:
    """The job has the number of waiting points, and the reason why the last try failed."""
    with database.write() as connection:
        job_rows.added(connection, mlflow_run="a" * 32)
        [run] = tracker_rows.of_job(connection, ID)
        tracker_rows.failed(connection, run, NOW, "MLflow cannot be reached.")
    answer = client.get(f"/api/v1/jobs/{ID}").json()
    assert answer["spec"]["mlflow_run"] == "a" * 32
    assert answer["trackers"] == [
        {
            "tracker": "mlflow",
            "run": "a" * 32,
            "waiting": 0,
            "logged_at": None,
            "error": "MLflow cannot be reached.",
        }
    ]


def test_a_job_is_found_by_its_name(database: Database) -> None:
    """The open one before those that ended, the newest of these; of several open ones none is guessed."""
    names = {"jold": "bert", "jnew": "bert", "jopen": "gpt", "jover": "gpt", "ja": "vit", "jb": "vit"}
    with database.write() as connection:
        for number, (job_id, name) in enumerate(names.items()):
            job_rows.added(connection, job_id, name=name, created_at=NOW - timedelta(hours=9 - number))
        for job_id in ("jold", "jnew", "jover"):
            jobs.set_state(connection, job_id, JobState.SUCCEEDED, "Finished.", NOW, NOW)
    client = TestClient(create_app(deps_of(database)))
    answers = {name: client.get(f"/api/v1/jobs/{name}") for name in ("bert", "gpt", "jold", "none", "vit")}
    assert [answers[name].json()["job"]["id"] for name in ("bert", "gpt", "jold")] == ["jnew", "jopen", "jold"]
    assert (answers["none"].status_code, "no job 'none'" in answers["none"].json()["detail"]) == (404, True)
    assert (answers["vit"].status_code, "'vit': jb, ja" in answers["vit"].json()["detail"]) == (409, True)
    assert client.get("/api/v1/jobs/gpt/output").json()["job"] == "jopen"


def test_a_drill_that_took_no_time_is_shown() -> None:
    """A command that had just saved has its checkpoint at once: zero seconds are a time like any other."""
    none = timedelta()
    saved = Drill(
        ID, 1, NOW, "ada@lab.example", DrillState.OVER, DrillResult.SAVED, saved=none, uploaded=none, resumed=none
    )
    shown = DrillOut.of(saved)
    assert (shown.saved_seconds, shown.uploaded_seconds, shown.resumed_seconds, shown.grace_seconds) == (0, 0, 0, None)
    assert "after 0.0 s" in shown.text
    assert "after 0.0 s" in DrillOut.of(replace(saved, saved=timedelta(seconds=3))).text
