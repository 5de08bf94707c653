"""Jobs and attempts as the store takes them, with everything filled in that a rule is not about."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection
from tests.api.rows import NOW

from costguard.jobs.rows import attempts, job_rows
from costguard.jobs.rows.attempts import NewAttempt
from costguard.model.attempt import Attempt, AttemptState, Outcome, attempt_name
from costguard.model.instance import ProvisioningModel
from costguard.model.job import CheckpointPlan, Job, JobKind, JobSpec, JobState, SeenCheckpoint
from costguard.model.launch import Recipe
from costguard.model.money import Money
from costguard_vm.model.checkpoint import Framework, LookFor

RECIPE = Recipe(
    machine_type="n1-standard-8",
    zones=("us-central1-a", "us-central1-b"),
    image="projects/deeplearning-platform-release/global/images/family/common-cu124",
    max_run=timedelta(hours=24),
    gpu_type="nvidia-tesla-t4",
    gpu_count=1,
    attaches_gpus=True,
    labels={"team": "vision"},
)
SPEC = JobSpec(
    kind=JobKind.TRAINING,
    preset="t4",
    project="lab",
    owner="ada@lab.example",
    name="resnet",
    command=("python", "train.py"),
    environment={"EPOCHS": "3"},
    checkpoint=CheckpointPlan("gs://lab/run", "--from {checkpoint}", LookFor(Framework.HUGGING_FACE)),
    ceiling=Money.of("12.345678901"),
    deadline=NOW + timedelta(days=2),
    work=timedelta(days=1, hours=2, microseconds=3),
)


def job(job_id: str = "j7k2m9q4", **given: Any) -> Job:
    """Makes a job; fields of a specification in `given` go into it."""
    spec = replace(SPEC, **{name: given.pop(name) for name in tuple(given) if name in SPEC.__slots__})
    values: dict[str, Any] = {
        "spec": spec,
        "recipe": RECIPE,
        "state": JobState.QUEUED,
        "reason": "It waits for the next turn.",
        "created_at": NOW,
        "via": "api",
    }
    return Job(job_id, **{**values, **given})


def added(connection: Connection, job_id: str = "j7k2m9q4", **given: Any) -> Job:
    return job_rows.add(connection, job(job_id, **given), None, "")[0]


def failed_on_disk(connection: Connection, job_id: str, owner: str = SPEC.owner) -> Job:
    """A job that has failed, and whose stopped VM holds the only copy of its checkpoints: step 40 is the newest."""
    made = added(connection, job_id, owner=owner, checkpoint=CheckpointPlan("/ckpt", "--from {checkpoint}"))
    attempt(
        connection,
        job_id,
        state=AttemptState.KEPT,
        outcome=Outcome.CRASHED,
        reason="the command failed with code 3",
        gce_id="4799",
        ended_at=NOW,
    )
    job_rows.set_state(connection, job_id, JobState.FAILED, "The command failed with code 3.", None, NOW)
    job_rows.save_look(connection, job_id, SeenCheckpoint(NOW, "/ckpt/step-40", 40, NOW))
    return made


def new_attempt(job_id: str = "j7k2m9q4", number: int = 1, **given: Any) -> NewAttempt:
    name = attempt_name(job_id, number)
    values: dict[str, Any] = {
        "job_id": job_id,
        "number": number,
        "name": name,
        "project": "lab",
        "zone": "us-central1-a",
        "gpu_type": "nvidia-tesla-t4",
        "provisioning_model": ProvisioningModel.SPOT,
        "request_uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
        "max_run": timedelta(hours=24),
        "intended_at": NOW,
        "rate": Money.of("0.25"),
    }
    return NewAttempt(**{**values, **given})


def attempt(connection: Connection, job_id: str = "j7k2m9q4", number: int = 1, **given: Any) -> Attempt:
    """Intended; of `given`, what a new one does not have is changed after that."""
    new = {name: given.pop(name) for name in tuple(given) if name in NewAttempt.__slots__}
    made = attempts.intend(connection, new_attempt(job_id, number, **new))
    assert made is not None
    if given:
        assert attempts.change(connection, made.id, list(AttemptState), **given)
    read = attempts.read(connection, made.id)
    assert read is not None
    return read
