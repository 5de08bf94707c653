"""Checkpoints that cannot travel are refused at the launch, with the flag that mends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costguard.jobs.submit.check.check_travel import travel_problems
from costguard.jobs.submit.check.options import option_problems
from costguard.model.job import CheckpointPlan, JobInput, JobKind, JobMetric, JobSpec, published

PLAN = CheckpointPlan("s3://lab/run", "--resume {checkpoint}")
SPEC = JobSpec(JobKind.TRAINING, "t4", "demo", "ana@example.com", command=("python", "train.py"), checkpoint=PLAN)
ROLE = "arn:aws:iam::123456789012:role/training"


def _parts(spec: JobSpec) -> list[str]:
    return [refusal.where for refusal in travel_problems(spec)]


def test_a_location_that_nothing_is_saved_at_is_refused() -> None:
    """An unchanged script would train for hours, save on its VM alone, and start from the beginning."""
    (refusal,) = travel_problems(SPEC)
    assert refusal.where == "checkpoint.local"
    assert "--local /data/out" in refusal.message
    assert "--uploads-itself" in refusal.message


@pytest.mark.parametrize(
    "spec",
    [
        replace(SPEC, checkpoint=replace(PLAN, local="/data/out")),
        replace(SPEC, checkpoint=replace(PLAN, uploads_itself=True)),
        replace(SPEC, command=("python", "train.py", "--out=s3://lab/run/x")),
        replace(SPEC, environment={"OUT": "s3://lab/run"}),
        replace(SPEC, checkpoint=replace(PLAN, resume="--from {location}")),
        replace(SPEC, checkpoint=replace(PLAN, location="/var/ckpt")),
        replace(SPEC, checkpoint=None),
    ],
)
def test_a_location_that_something_is_saved_at_is_accepted(spec: JobSpec) -> None:
    """A location is used by the agent, by the command's words, its environment or its way to resume; or is on the VM's
    disk.
    """
    assert _parts(spec) == []


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (replace(PLAN, local="data/out"), "whole path"),
        (replace(PLAN, local="/etc/out"), "belongs to the VM"),
        (replace(PLAN, local="/data/out", location="/var/ckpt"), "on the VM's disk"),
        (replace(PLAN, local="/data/out", uploads_itself=True), "leave one of the two out"),
        (replace(PLAN, local="/data/last.pt"), "both name a folder, or both a file"),
    ],
)
def test_a_folder_that_cannot_travel_is_refused(plan: CheckpointPlan, words: str) -> None:
    """Each with what to change."""
    assert words in " ".join(refusal.message for refusal in travel_problems(replace(SPEC, checkpoint=plan)))


def test_a_folder_in_a_container_needs_a_mount() -> None:
    """Otherwise the agent could not read it, and it would go with the container."""
    spec = replace(SPEC, image="acme/train:1", checkpoint=replace(PLAN, local="/data/out"))
    assert _parts(spec) == ["checkpoint.local"]
    assert _parts(replace(spec, mounts=("/var/out:/data",))) == []


def test_a_folder_that_holds_an_input_is_refused() -> None:
    """An input's files would be taken for checkpoints; the other way round is fine."""
    spec = replace(SPEC, checkpoint=replace(PLAN, local="/data"), inputs=(JobInput("s3://lab/v7", "/data/v7"),))
    assert _parts(spec) == ["checkpoint.local"]
    assert _parts(replace(spec, checkpoint=replace(PLAN, local="/data/v7/out"))) == []


def test_a_role_is_an_arn_and_no_key_is_given_with_it() -> None:
    """AWS's own chain would take the key, silently."""
    spec = replace(SPEC, checkpoint=None, aws_role=ROLE)
    assert _parts(spec) == []
    assert [refusal.where for refusal in option_problems(replace(spec, aws_role="training"))] == ["aws_role"]
    assert _parts(replace(spec, secrets={"AWS_ACCESS_KEY_ID": "projects/p/secrets/s"})) == ["aws_role"]


RESULT = replace(PLAN, local="/data/out", publish_to="s3://lab/models/bert")


@pytest.mark.parametrize(
    ("plan", "where", "words"),
    [
        (replace(RESULT, local=""), "checkpoint.publish_to", "The agent publishes what it uploads"),
        (replace(RESULT, publish_to="gs://lab/models"), "checkpoint.publish_to", "not with the provider"),
        (replace(RESULT, publish_to="s3://lab/bert.pt"), "checkpoint.publish_to", "name a folder"),
        (replace(RESULT, publish_to="", publish="best"), "checkpoint.publish_to", "add --publish-to"),
        (replace(RESULT, publish="best"), "checkpoint.publish", "--metric"),
    ],
)
def test_result_that_the_agent_could_not_publish_is_refused(plan: CheckpointPlan, where: str, words: str) -> None:
    """Each with what to change."""
    refusals = {one.where: one.message for one in travel_problems(replace(SPEC, checkpoint=plan))}
    assert words in refusals[where]


def test_best_of_one_file_that_is_overwritten_is_refused() -> None:
    """It holds the newest alone, which may be published."""
    plan = replace(RESULT, location="s3://lab/last.pt", local="/data/last.pt", publish="best")
    spec = replace(SPEC, checkpoint=plan, metric=JobMetric("loss (.*)"))
    assert _parts(spec) == ["checkpoint.publish"]
    assert _parts(replace(spec, checkpoint=replace(plan, publish="latest"))) == []


@pytest.mark.parametrize(
    ("publish", "metric", "which"),
    [
        (None, None, "latest"),
        (None, JobMetric("loss (.*)"), "best"),
        ("latest", JobMetric("loss (.*)"), "latest"),
    ],
)
def test_published_is_the_best_where_the_job_names_a_metric(
    publish: str | None, metric: JobMetric | None, which: str
) -> None:
    """The default is that, where it says nothing else."""
    spec = replace(SPEC, checkpoint=replace(RESULT, publish=publish), metric=metric)
    assert _parts(spec) == []
    assert published(spec) == which
    assert published(replace(spec, checkpoint=replace(RESULT, publish_to=""))) == ""
