"""A Flyte task's configuration, and the job's request that it becomes."""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct

from costguard.api.job.bodies import JobBody
from costguard.errors import Invalid
from costguard_client.flyte import CostguardJob
from costguard_client.flyte.job import JobRequest, Place, execution_labels, request_of, with_labels

EVERYTHING = CostguardJob(
    preset="a100",
    command=("python", "train.py", "--lr", "{lr}", "--data", "{data}", "--out", "{model}"),
    image="lab/train:7",
    pull=True,
    buy="spot",
    on_demand_fallback=False,
    zones=("us-central1-a",),
    machine_type="a2-highgpu-1g",
    disk_gib=200,
    max_run_hours=12,
    checkpoint="s3://runs/{run}",
    local="/data/out",
    resume="--from {checkpoint} --seed {lr}",
    framework="files",
    pattern="step-{step}.pt",
    marker="DONE",
    keep=2,
    uploads_itself=False,
    publish_to="s3://models/best/{run}",
    publish="latest",
    ceiling="60",
    max_vm_hours=40,
    deadline="2026-12-01T00:00:00Z",
    deadline_in_hours=18,
    work_hours=8,
    total_steps=30_000,
    when_late="stop",
    on_hang="restart",
    stop_when_flat=True,
    priority=5,
    queue=True,
    stacks=True,
    profile=True,
    drill=True,
    max_preemptions=5,
    max_crashes=0,
    environment={"RUN": "{run}", "PLAIN": "{nothing}"},
    secrets={"HF_TOKEN": "projects/lab/secrets/hf"},
    setup="pip install -r requirements.txt",
    code={"sha256": "0" * 64, "size": 10, "files": 1},
    workdir="src",
    mounts=("/data:/data",),
    labels={"experiment": "{run}"},
    aws_role="arn:aws:iam::123456789012:role/training",
    bandwidth_mib_s=50,
    stage="on",
    mlflow_run="{run}",
    wandb_run="lab/bert/{run}",
    step_pattern=r"step (\d+)",
    metric=r"val_loss (\S+)",
    better="lower",
    project="lab",
    owner="ada@lab.example",
    nodes=2,
    placement="compact",
    name="llama {run}",
    inputs={"data": "/data/in"},
    outputs={"model": "/data/model"},
    destinations={"model": "s3://models/{run}"},
)
INPUTS: dict[str, Any] = {"lr": "0.1", "run": "r7", "data": Place("s3://acme-data/v7")}


def made(job: CostguardJob = EVERYTHING, **options: Any) -> JobRequest:
    return request_of(job, INPUTS, ("model",), "s3://flyte/x/", name="lab.train", **options)


def test_every_part_of_a_task_reaches_the_job() -> None:
    """The server's own model accepts the body as it is, and nothing that the task says is lost."""
    body: Any = JobBody.model_validate_json(json.dumps(made().body))
    assert body.command == ["python", "train.py", "--lr", "0.1", "--data", "/data/in", "--out", "/data/model"]
    assert body.environment == {"RUN": "r7", "PLAIN": "{nothing}"}
    assert body.checkpoint is not None
    assert (body.checkpoint.location, body.checkpoint.resume) == ("s3://runs/r7", "--from {checkpoint} --seed 0.1")
    assert (body.checkpoint.publish_to, body.checkpoint.publish) == ("s3://models/best/r7", "latest")
    assert (body.checkpoint.pattern, body.checkpoint.local, body.checkpoint.keep) == ("step-{step}.pt", "/data/out", 2)
    assert [(one.source, one.path) for one in body.inputs] == [("s3://acme-data/v7", "/data/in")]
    assert [(one.path, one.destination) for one in body.outputs] == [("/data/model", "s3://models/r7")]
    assert body.name == "llama r7"
    assert (body.mlflow_run, body.wandb_run) == ("r7", "lab/bert/r7")
    left_at_default = {name for name in JobBody.model_fields if name not in body.model_fields_set} - {"kind"}
    assert left_at_default == set()
    assert body.overrides is not None
    assert len(body.overrides.model_fields_set) == 6  # all but the boot image, which is the preset's
    assert made().outputs == {"model": "s3://models/r7"}


def test_a_task_has_every_option_of_a_job() -> None:
    """A new field of the API's request must be given to tasks too, or left out on purpose."""
    named = {part.name for part in dataclasses.fields(CostguardJob)}
    left_out = {"kind", "overrides"}  # a task is no development VM; overrides are options of their own
    assert set(JobBody.model_fields) - named == left_out


def test_a_configuration_survives_the_trip_through_protobuf() -> None:
    """A Struct's only numbers are floats, and the API takes whole numbers for counts."""
    carried = json_format.MessageToDict(json_format.ParseDict(EVERYTHING.custom(), Struct()))
    assert carried["keep"] == 2.0
    assert request_of(CostguardJob.of_custom(carried), INPUTS, ("model",), "s3://x").body == made().body | {}
    assert isinstance(CostguardJob.of_custom(carried).keep, int)


def test_a_job_of_an_execution_has_its_labels() -> None:
    """The execution, its workflow, project and domain, in Google's characters; what the task says counts more."""
    labels = execution_labels("Lab", "development", "f3b1c7d2", {"workflow-name": "train.Pipeline_v2"})
    assert labels == {
        "flyte-execution": "f3b1c7d2",
        "flyte-workflow": "train-pipeline_v2",
        "flyte-project": "lab",
        "flyte-domain": "development",
    }
    assert execution_labels("lab", "dev", "x" * 80)["flyte-execution"] == "x" * 63
    plain = request_of(CostguardJob(preset="t4", command=("true",)), {}, (), "s3://x")
    assert with_labels(plain, labels).body["labels"] == labels
    own = CostguardJob(preset="t4", command=("true",), labels={"flyte-project": "mine", "experiment": "a"})
    body = with_labels(request_of(own, {}, (), "s3://x"), labels).body
    assert body["labels"] == {**labels, "flyte-project": "mine", "experiment": "a"}
    assert with_labels(plain, {}) == plain


def test_outputs_lie_where_flyte_says_unless_the_task_says_otherwise() -> None:
    """The place is below the output prefix of this execution, so that two executions never share one."""
    job = CostguardJob(preset="t4", command=("train", "{data}", "{model}"))
    request = made(job)
    assert request.outputs == {"model": "s3://flyte/x/model"}
    assert list(request.body["command"]) == ["train", "/data/data", "/data/model"]
    assert request.body["name"] == "lab.train"


def test_what_a_task_leaves_out_is_left_to_the_server() -> None:
    """The server's defaults, and the preset's, are not repeated here."""
    request = request_of(CostguardJob(preset="t4", command=("true",)), {}, (), "s3://x", name="n")
    assert request.body == {"preset": "t4", "command": ["true"], "name": "n"}


@pytest.mark.parametrize("uri", ["/tmp/flyte/data", "https://example.com/x", ""])
def test_a_place_that_no_vm_reaches_is_refused(uri: str) -> None:
    """Before anything is launched, with what to do about it."""
    with pytest.raises(Invalid, match=r"data is at .*cannot reach") as refused:
        request_of(CostguardJob(preset="t4"), {"data": Place(uri)}, (), "s3://x")
    assert "raw-output-data-prefix" in refused.value.what_next
    with pytest.raises(Invalid, match="model is at"):
        request_of(CostguardJob(preset="t4"), {}, ("model",), "/tmp/x")


def test_a_function_runs_flytekits_own_command_in_its_own_image() -> None:
    """flytekit reads and writes the function's data itself; the task's image and environment go before."""
    container = {
        "container": ["pyflyte-execute", "--inputs", "s3://flyte/x/inputs.pb"],
        "container_image": "lab/flows:3",
        "container_environment": {"A": "1", "B": "1"},
    }
    job = CostguardJob(preset="t4", environment={"B": "2"})
    request = made(job, **container)
    assert request.body["command"] == container["container"]
    assert request.body["image"] == "lab/flows:3"
    assert request.body["environment"] == {"A": "1", "B": "2"}
    assert "inputs" not in request.body
    assert request.outputs == {}


def test_a_configuration_of_another_version_is_refused() -> None:
    """An option that this connector does not know may be the one that limits the cost."""
    with pytest.raises(Invalid, match="does not know budget"):
        CostguardJob.of_custom({"preset": "t4", "budget": "lab"})
    with pytest.raises(Invalid, match="no preset"):
        CostguardJob.of_custom({})


def test_options_are_named_like_those_of_the_command() -> None:
    """Each parameter can be given by name alone, so that adding one breaks no task."""
    kinds = {part.kind for part in inspect.signature(CostguardJob).parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}
