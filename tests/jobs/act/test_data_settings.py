"""A VM's agent gets the settings of a job's data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.jobs.jobbed import attempt, job

from costguard.jobs.act.attempts.vm_request import VmMaker, data_mounts, settings_for
from costguard.model.data import StageRules
from costguard.model.job import CheckpointPlan, JobInput, JobMetric, JobOutput, JobSpec

DATA = JobInput("s3://acme-data/v7", "/data")
MODEL = JobOutput("/data/model", "s3://acme-models/run-12")
LOGS = JobOutput("/logs", "gs://acme-logs/run-12")


def spec(**changed: Any) -> JobSpec:
    given: dict[str, Any] = {"image": "train:1", "inputs": (DATA,), "outputs": (MODEL, LOGS), **changed}
    return job(**given).spec


def test_the_agent_gets_inputs_by_path_and_outputs_by_destination() -> None:
    """The agent also gets the job's id, by which it knows what earlier attempts left."""
    given = settings_for(replace(job(), spec=spec()), attempt(), (), "https://guard.example")
    assert given["inputs"] == {"/data": "s3://acme-data/v7"}
    assert given["outputs"] == {"s3://acme-models/run-12": "/data/model", "gs://acme-logs/run-12": "/logs"}
    assert given["job"] == "j1"


def test_the_agent_gets_the_stage_that_is_near_its_vm() -> None:
    """An input that is not staged has none, nor has a region for which no bucket is named."""
    staged = replace(job(), spec=spec(inputs=(replace(DATA, staged=True), JobInput("gs://acme/v7", "/more"))))
    rules = StageRules(regions={"us-central1": "gs://near"})

    def stages(zone: str) -> object:
        made: list[Mapping[str, object]] = []

        def metadata(settings: Mapping[str, object], token: str, with_drivers: bool) -> Mapping[str, str]:
            made.append(settings)
            return {}

        VmMaker("g1", "https://guard.example", "", str, metadata, stage=rules).request(staged, attempt(zone=zone))
        return made[0].get("stages")

    assert stages("us-central1-b") == {"/data": "gs://near/costguard/stage"}
    assert stages("europe-west4-a") is None


def test_a_job_without_data_has_none_of_its_settings() -> None:
    """A VM's metadata have little room."""
    given = settings_for(job(), attempt(), (), "https://guard.example")
    assert not {"inputs", "outputs", "job"} & given.keys()


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ((), ["/data:/data", "/logs:/logs"]),  # the model lies in the data's folder
        (("/srv:/logs",), ["/data:/data"]),
        (("/srv:/data:ro", "/srv2:/logs"), []),
        (("/srv:/data/model",), ["/data:/data", "/logs:/logs"]),
    ],
)
def test_a_container_has_the_folders_of_its_data(mounts: tuple[str, ...], expected: list[str]) -> None:
    """The folders have the same paths as on the VM, unless a mount holds them already."""
    assert data_mounts(spec(mounts=mounts)) == expected


def test_without_a_container_nothing_is_mounted() -> None:
    """The command sees the VM's own folders."""
    assert data_mounts(spec(image="")) == []


@pytest.mark.parametrize(("metric", "which"), [(None, "latest"), (JobMetric("loss (.*)"), "best")])
def test_the_agent_gets_the_place_of_the_result(metric: JobMetric | None, which: str) -> None:
    """The job's id comes with it, by which it knows what earlier attempts left."""
    plan = CheckpointPlan("gs://acme/run", local="/out", publish_to="gs://acme/models/bert")
    training = replace(job(), spec=spec(outputs=(), checkpoint=plan, metric=metric))
    given = settings_for(training, attempt(), (), "https://guard.example")
    assert given["publish"] == {"to": "gs://acme/models/bert", "which": which}
    assert given["job"] == "j1"
    plain = replace(job(), spec=spec(outputs=(), checkpoint=replace(plan, publish_to="")))
    assert {"publish", "job"}.isdisjoint(settings_for(plain, attempt(), (), "https://guard.example"))
