"""The pages of jobs: what stands on them, and that nothing in them does harm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.jobs import job_rows
from tests.pages import job_story
from tests.pages.html import Page, page_of, tidy

from costguard.access.rules import Rules, by_name
from costguard.api.deps import Deps
from costguard.db.transaction import Database
from costguard.jobs.rows import agent_rows
from costguard.jobs.rows import job_rows as jobs
from costguard.model.attempt import AgentState, AttemptState
from costguard.model.data import DataTransfer, TransferState
from costguard.model.job import CheckpointPlan, JobInput, JobOutput, JobState, SeenCheckpoint
from costguard.model.money import Money
from costguard.trackers import rows as tracker_rows
from costguard_vm.model.checkpoint import LookFor

ATTACK = "</title></svg><script>alert('1')</script>\"{{ 7 * 7 }}"


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """Makes a database. Reads are the API's too, and tested on both kinds there; here it is how they are shown."""
    return sqlite_database


def names(page: Page) -> list[str]:
    return [str(attrs["href"]) for tag, attrs in page.tags if tag == "a" and attrs.get("class") == "name"]


def test_open_jobs_come_with_why_they_are_so(database: Database, client: TestClient) -> None:
    """Steps, attempts and dollars of each; how recoveries went, and how zones did."""
    story = job_story.tell(database)
    page = page_of(client, "/jobs")
    text = tidy(page.text)
    assert set(names(page)) == {story["resnet"], story["bert"], story[""]}
    assert "2 running, $0.500 an hour" in text
    assert "Recovering 1" in text
    assert "30,600 10,864 an hour 3 2 preempted $1.6" in text
    assert "Every zone of preset t4 is out of Spot stock: it asks again at 12:04. deadline 20 Nov, 11:59" in text
    assert "Until the command was running again median 11 min, 90% within 13 min" in text
    assert "Causes: 2 preempted. First reported by: notice 2. Work lost: 4 h 27 min." in text
    assert "us-central1-a Spot T4 0.91 0.45" in text
    assert "stockout 20 Nov, 11:56" in text


def test_a_deadline_comes_with_its_plan(database: Database, client: TestClient) -> None:
    """The page says why it runs where it does, the risk, the curve with the latest safe moment, decisions, and other
    policies.
    """
    story = job_story.tell(database)
    page = page_of(client, story["resnet"])
    text = tidy(page.text)
    assert "1 h 12 min behind an even pace" in text
    assert "28 h of work are left. A faster machine type or less work would help." in text
    assert "on demand is not needed before" in text
    assert "1 d 2 h of work were left at the last look, and 1 d 6 h at most." in text
    assert "up to 20 min and a preemption up to 25 min of work" in text
    assert "Spot until the last moment: stays on Spot in us-central1-a: 1.2 h behind" in text
    lines = [str(attrs["class"]) for tag, attrs in page.tags if tag == "polyline"]
    assert [line for line in lines if line != "p-value"] == ["p-even", "p-left"]  # curves of the progress apart
    assert "p-safe" in [attrs.get("class") for tag, attrs in page.tags if tag == "line"]
    assert "Latest safe moment" not in page_of(client, story["gan"]).text


def test_jobs_can_be_filtered_and_those_that_are_over_shown(database: Database, client: TestClient) -> None:
    """A state alone looks among the over ones too; where nothing fits it says how to see more."""
    story = job_story.tell(database)
    assert names(page_of(client, "/jobs?state=failed")) == [story["gan"]]
    assert len(names(page_of(client, "/jobs?all=yes"))) == 4
    assert names(page_of(client, "/jobs?owner=bob%40lab.example")) == [story["bert"]]
    nothing = page_of(client, "/jobs?preset=a100")
    assert "No job matches these filters." in nothing.text
    assert "/jobs?preset=a100&all=yes" in nothing.addresses
    assert "There is no state bored" in page_of(client, "/jobs?state=bored", 422).text
    assert "does not point to a page of the jobs" in page_of(client, "/jobs?before=yesterday", 422).text


def test_more_jobs_than_fit_come_on_further_pages(database: Database, client: TestClient) -> None:
    """Each once, the newest first, though many were submitted in the same second."""
    with database.write() as connection:
        for number in range(60):
            job_rows.added(connection, f"j{number:07}", created_at=NOW - timedelta(minutes=number // 20))
    page = page_of(client, "/jobs")
    (more,) = [address for address in page.addresses if "before=" in address]
    assert parse_qs(urlsplit(more).query)["before"]
    seen = [*names(page), *names(page_of(client, more))]
    assert len(seen) == len(set(seen)) == 60


def test_without_jobs_it_says_how_to_launch_one(
    database: Database, client_with: Callable[..., TestClient], deps: Deps
) -> None:
    """The page names the presets, or how to make one that launches."""
    assert "First add launch settings to a preset" in tidy(page_of(client_with(), "/jobs").text)
    preset = replace(deps.rules.presets["t4"], launch=job_rows.RECIPE)
    text = tidy(page_of(client_with(rules=Rules(by_name([preset]))), "/jobs").text)
    assert "No job has been launched yet." in text
    assert "You can launch on t4." in text
    assert "us-central1-b Spot T4 – –" in text
    with database.write() as connection:
        job_rows.added(connection)
        jobs.set_state(connection, "j7k2m9q4", JobState.SUCCEEDED, "Done.", None, NOW - timedelta(days=1, minutes=1))
    text = tidy(page_of(client_with(), "/jobs").text)
    assert "No job is open, and none ended in the last day. Show ended jobs" in text


def test_jobs_that_ended_in_the_last_day_stand_among_the_open_ones(database: Database, client: TestClient) -> None:
    """An owner finds what finished over night where it ran; older ones are behind a switch."""
    with database.write() as connection:
        for name, hours in (("jnight", 9), ("jmonday", 25)):
            job_rows.added(connection, name, created_at=NOW - timedelta(days=3))
            jobs.set_state(connection, name, JobState.SUCCEEDED, "Done.", None, NOW - timedelta(hours=hours))
    page = page_of(client, "/jobs")
    assert names(page) == ["/jobs/jnight"]
    assert "Open jobs, and jobs of the last day" in tidy(page.text)
    assert set(names(page_of(client, "/jobs?all=yes"))) == {"/jobs/jnight", "/jobs/jmonday"}


def test_few_recoveries_are_said_and_not_drawn(database: Database, client: TestClient) -> None:
    """A histogram of one bar or two shows nothing that the median does not."""
    job_story.tell(database)
    page = page_of(client, "/jobs")
    assert "median 11 min, 90% within 13 min" in tidy(page.text)
    assert "img" not in [attrs.get("role") for tag, attrs in page.tags if tag == "svg"]


def test_a_job_tells_its_story(database: Database, client: TestClient) -> None:
    """Where it was, what it lost, what it printed, and what would be lost now."""
    page = page_of(client, job_story.tell(database)["resnet"])
    text = tidy(page.text)
    for part in (
        "resnet running Spot",
        "it would resume from step",
        "Restarted from zero",
        "checkpoint-30500: trainer_state.json is missing",
        "At risk now 1 h $0.25",
        "Work lost 4 h 27 min $1.11",
        "10 h so far, 3 attempts",
        "2. us-central1-b Spot preempted 3 h 47 min",
        "Lost: 40 min, $0.17. Resumed after 13 min.",
        "Lost: 3 h 47 min, $0.95, all of it. Resumed after 11 min.",
        "Resumed from gs://lab/run/checkpoint-12000, because attempt 1 failed at once.",
        "2 of 100 preemptions",
        "--from {checkpoint}",
        "100% saved checkpoint-30000 <done>",
        "of the paid time kept, $",
        "What bounds it its input (too few processors)",
        "the same GPU with 8 vCPUs (n1-standard-8) costs $0.055 an hour more",
        "Mending it saves up to",
    ):
        assert part in text
    assert "/vm/lab/9101" in page.addresses
    classes = [attrs.get("class") for tag, attrs in page.tags if tag in ("rect", "path", "line")]
    assert [classes.count(class_name) for class_name in ("t-working", "t-lost", "t-cut", "t-cut zero", "t-way")] == [
        3,
        3,
        2,
        1,
        2,
    ]
    assert classes.count("t-saved") == 4  # one of each mark stands in the legend


def test_a_dev_vm_says_how_to_reach_it(database: Database, client: TestClient) -> None:
    """The page has a shell and a notebook; steps and losses mean nothing there."""
    text = tidy(page_of(client, job_story.tell(database)[""]).text)
    ssh = "gcloud compute ssh cg-d4devvm2-1 --zone us-central1-a --project lab"
    assert f"{ssh} {ssh} -- -L 8888:localhost:8888" in text
    for part in ("1,000 steps", "Tolerates", "Output", "Timeline"):
        assert part not in text


def test_a_job_that_is_over_stands_still(database: Database, client: TestClient) -> None:
    """It asks for nothing any more; secrets are shown by their references."""
    story = job_story.tell(database)
    over, running = page_of(client, story["gan"]), page_of(client, story["resnet"])
    refreshes = [["hx-get" in attrs for tag, attrs in page.tags if tag == "main"] for page in (over, running)]
    assert refreshes == [[False], [True]]
    assert "KEY projects/lab/secrets/k" in tidy(over.text)
    assert "Per hour nothing running" in tidy(over.text)
    assert "What each policy would do" in running.text
    assert "What each policy would do" not in over.text


@pytest.mark.parametrize("job_id", ["none", "%00", "x" * 600])
def test_a_job_that_is_not_there_is_said_so(database: Database, client: TestClient, job_id: str) -> None:
    """The page says where to look."""
    assert database
    assert "There is no job" in page_of(client, f"/jobs/{job_id}", 404).text


def test_what_others_wrote_into_a_job_is_only_text(database: Database, client: TestClient) -> None:
    """Names, commands, images, reasons, errors, checkpoints and output start no tag."""
    with database.write() as connection:
        rows.project(connection)
        plan = CheckpointPlan(ATTACK, ATTACK, LookFor())
        job_rows.added(
            connection, state=JobState.RUNNING, name=ATTACK, owner=ATTACK, preset=ATTACK, project=ATTACK, reason=ATTACK,
            command=(ATTACK,), image=ATTACK, environment={"A": ATTACK}, secrets={"B": ATTACK}, checkpoint=plan,
            via=ATTACK,
        )  # fmt: skip
        made = job_rows.attempt(
            connection, zone=ATTACK, project=ATTACK, gce_id="1", resume_from=ATTACK, reason=ATTACK, error=ATTACK,
            state=AttemptState.RUNNING,
        )  # fmt: skip
        agent_rows.hear(connection, made.id, AgentState(NOW, 1, started_at=NOW, step=1, output=ATTACK))
        seen = SeenCheckpoint(NOW, ATTACK, 1, NOW, torn=(ATTACK,))
        jobs.save_look(connection, "j7k2m9q4", seen)
        jobs.save_look(connection, "j7k2m9q4", replace(seen, error=ATTACK))
    for address in ("/jobs", "/jobs/j7k2m9q4", "/jobs/j7k2m9q4/cancel"):
        page = page_of(client, address)
        assert ATTACK in page.text
        assert all(str(attrs.get("src", "")).startswith("/static/") for tag, attrs in page.tags if tag == "script")
        assert all(address.startswith(("/", "#")) for address in page.addresses)
        assert all(not name.startswith("on") and name != "style" for _, attrs in page.tags for name in attrs)


def test_a_full_disk_and_the_images_digest_are_shown(database: Database, client: TestClient) -> None:
    """The disk is above the figures while its VM runs, and the digest next to the image's name."""
    digest = "sha256:" + "a" * 64
    with database.write() as connection:
        job_rows.added(connection, state=JobState.RUNNING, image="acme/train:7")
        made = job_rows.attempt(connection, state=AttemptState.RUNNING)
        machine = {"disk_free_bytes": 0, "disk_total_bytes": 100 << 30, "disk_mount": "/"}
        agent_rows.hear(connection, made.id, AgentState(NOW, 1, started_at=NOW, machine=machine, image_digest=digest))
    page = page_of(client, "/jobs/j7k2m9q4")
    assert "Disk full: 0 bytes left on /" in page.text
    assert f"pulled as {digest}" in " ".join(page.text.split())


def test_a_job_of_several_vms_shows_each_with_its_node(database: Database, client: TestClient) -> None:
    """The list says how many there are and what an hour of all costs; the job's page names each VM's node."""
    with database.write() as connection:
        job_rows.added(connection, state=JobState.RUNNING, nodes=3)
        for node in range(3):
            made = job_rows.attempt(
                connection, number=node + 1, node=node, formation=1, state=AttemptState.RUNNING, rate=Money.of("0.25"),
                gce_id=str(node + 1),
            )  # fmt: skip
            agent_rows.hear(connection, made.id, AgentState(NOW, 1, started_at=NOW, step=100))
    listed, text = tidy(page_of(client, "/jobs").text), tidy(page_of(client, "/jobs/j7k2m9q4").text)
    assert "3 × t4" in listed
    assert "1 running, $0.750 an hour" in listed
    for node in range(3):
        assert f"{node + 1}. node {node}, us-central1-a" in text
        assert f"us-central1-a, node {node}" in text, "its lane in the timeline"
    assert "VMs together 3" in text


def test_data_that_no_vm_has_reported_on_is_shown(database: Database, client: TestClient) -> None:
    """The page shows, from the launch on, sources and targets, where the command saves, and no progress."""
    with database.write() as connection:
        inputs, outputs = (JobInput("s3://acme-data/v7", "/data"),), (JobOutput("/model", "s3://acme-models/12"),)
        plan = CheckpointPlan("s3://acme-runs/12", "--from {checkpoint}", local="/out")
        job_rows.added(connection, state=JobState.QUEUED, inputs=inputs, outputs=outputs, checkpoint=plan)
    text = tidy(page_of(client, "/jobs/j7k2m9q4").text)
    assert "Input s3://acme-data/v7 in /data Output s3://acme-models/12 from /model" in text
    assert "Checkpoints s3://acme-runs/12 from /out, the newest 3 kept" in text


@pytest.mark.parametrize(
    ("state", "sent", "words"),
    [
        (JobState.RUNNING, None, "the newest checkpoint, once it has succeeded"),
        (JobState.CANCELLED, None, "no checkpoint was published"),
        (JobState.SUCCEEDED, "step 20, the newest", "step 20, the newest; published: 1.0 KiB"),
    ],
)
def test_result_of_a_job_is_shown(
    database: Database, client: TestClient, state: JobState, sent: str | None, words: str
) -> None:
    """The page says which checkpoint is published where, what became of it, and that none was."""
    plan = CheckpointPlan("s3://runs/12", "--from {checkpoint}", local="/out", publish_to="s3://models/bert")
    with database.write() as connection:
        job_rows.added(connection, state=state, checkpoint=plan)
        made = job_rows.attempt(connection, number=1)
        done = DataTransfer(
            "result", plan.location, plan.publish_to, TransferState.DONE, bytes_done=1024, note=sent or ""
        )
        agent = AgentState(NOW, 1, started_at=NOW, transfers=(done,) if sent else ())
        agent_rows.hear(connection, made.id, agent)
    assert f"Result s3://models/bert {words}" in tidy(page_of(client, "/jobs/j7k2m9q4").text)


def test_a_hundred_preemptions_fit_one_page(database: Database, client: TestClient) -> None:
    """Each attempt is a stretch in the lane of its zone, however many there are."""
    with database.write() as connection:
        job_rows.added(connection, created_at=NOW - timedelta(hours=200))
        for number in range(1, 101):
            intended_at = NOW - timedelta(hours=2 * (101 - number))
            made = job_rows.attempt(
                connection, number=number, zone=f"us-central1-{'abcf'[number % 4]}", intended_at=intended_at,
                state=AttemptState.OVER, ended_at=intended_at + timedelta(hours=1),
            )  # fmt: skip
            agent_rows.hear(
                connection, made.id, AgentState(intended_at, 1, started_at=intended_at + timedelta(minutes=5))
            )
    answer = client.get("/jobs/j7k2m9q4", headers={"Accept-Encoding": "gzip"})
    assert Page(answer.text).mistakes == []
    assert int(answer.headers["content-length"]) < 40_000


def test_a_run_of_a_tracker_comes_with_its_trouble(database: Database, client: TestClient) -> None:
    """The page says why nothing is logged to it; without trouble that it is logged."""
    with database.write() as connection:
        job_rows.added(connection, mlflow_run="a" * 32, wandb_run="lab/bert/1")
        mlflow, wandb = tracker_rows.of_job(connection, "j7k2m9q4")
        tracker_rows.failed(connection, mlflow, NOW, "MLflow <b>cannot</b> be reached.")
        tracker_rows.logged(connection, wandb.id, NOW, NOW)
    text = tidy(page_of(client, "/jobs/j7k2m9q4").text)
    assert f"MLflow run {'a' * 32} MLflow <b>cannot</b> be reached. 0 points wait." in text
    assert "W&B run lab/bert/1 its cost is logged" in text
