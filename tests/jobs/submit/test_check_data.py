"""Inputs and outputs that are wrong are refused, with what to change."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.jobs.jobbed import job

from costguard.jobs.submit.check import checks
from costguard.jobs.submit.check.check_data import taken_problems
from costguard.model.job import CheckpointPlan, JobInput, JobKind, JobOutput, JobSpec

NOW = datetime(2026, 11, 22, tzinfo=UTC)
GUARD, HERE = "https://guard.example", "http://127.0.0.1:8080"
JOB = JobSpec(JobKind.TRAINING, "a100", "lab", "ana@lab.example", command=("python", "train.py"))
AWS = "AKIA" + "IOSFODNN7EXAMPL3"


def refused(spec: JobSpec, guard_url: str = GUARD) -> list[tuple[str, str]]:
    return [(refusal.where, refusal.message) for refusal in checks.problems(spec, guard_url, NOW)]


def with_input(source: str, path: str = "/data") -> JobSpec:
    return replace(JOB, inputs=(JobInput(source, path),))


def with_output(path: str, destination: str = "s3://acme-models/run-12") -> JobSpec:
    return replace(JOB, outputs=(JobOutput(path, destination),))


def test_data_from_s3_and_a_model_below_it_are_taken() -> None:
    """The example of the guide: the output's folder lies in the input's."""
    assert refused(replace(with_input("s3://acme-data/v7"), outputs=with_output("/data/model").outputs)) == []


@pytest.mark.parametrize("source", ["gs://acme-data", "s3://acme-data/day=7/part one", "gs://domain.example/a/"])
def test_sources_of_both_clouds_are_taken(source: str) -> None:
    """A bucket, an odd name in it, and a bucket named by a domain."""
    assert refused(with_input(source)) == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("/acme-data/v7", "is no address of a bucket"),
        ("https://acme-data.s3.amazonaws.com/v7", "is no address of a bucket"),
        ("azure://acme/v7", "is no address of a bucket"),
        ("s3://Acme_Data!/v7", "cannot be a bucket's name"),
        ("s3:///v7", "cannot be a bucket's name"),
        ("s3://acme-data/v7/../v8", "is empty, . or .."),
        ("s3://acme-data//v7", "is empty, . or .."),
        ("s3://acme-data/run/.costguard/logs", "Costguard keeps its own files"),
        ("file:///srv/data", "VMs cannot open a folder of the guard's machine"),
        ("file://srv/data", "three slashes"),
    ],
)
def test_other_sources_are_refused_with_the_form_to_write(source: str, words: str) -> None:
    """Each refusal names the part of the request and what is wrong with it."""
    ((where, message),) = refused(with_input(source))
    assert where == "inputs.0.source"
    assert words in message


def test_a_shared_folder_is_taken_where_guard_and_vm_share_one() -> None:
    """The sandbox's VMs run on the guard's own machine."""
    assert refused(with_input("file:///srv/data"), HERE) == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("data", "begin it with a slash"),
        ("/data/../etc", "is no plain path"),
        ("/data//v7", "is no plain path"),
        ("/data/.", "is no plain path"),
        ("/data:ro", "is no plain path"),
        ("/data\n", "is no plain path"),
        ("/", "belongs to the VM"),
        ("/etc/", "belongs to the VM"),
        ("/usr/local/data", "belongs to the VM"),
        ("/var/lib/costguard/attempts", "belongs to the VM"),
        ("/home", "belongs to the VM"),
    ],
)
def test_paths_that_are_not_the_jobs_own_are_refused(path: str, words: str) -> None:
    """Inputs and outputs with paths outside of the job's own are refused alike."""
    ((where, message),) = refused(with_input("s3://acme-data/v7", path))
    assert (where, words in message) == ("inputs.0.path", True), message
    ((where, message),) = refused(with_output(path))
    assert (where, words in message) == ("outputs.0.path", True), message


def test_inputs_in_one_place_are_refused() -> None:
    """The second would be mixed with the first."""
    spec = replace(JOB, inputs=(JobInput("s3://acme-data/a", "/data"), JobInput("s3://acme-data/b", "/data/b")))
    assert [where for where, _ in refused(spec)] == ["inputs.1.path"]


@pytest.mark.parametrize("path", ["/data", "/mnt/all"])
def test_an_output_that_holds_an_input_is_refused(path: str) -> None:
    """The input would be published with it."""
    spec = replace(with_input("s3://acme-data/a", "/mnt/all/in" if path != "/data" else "/data"))
    spec = replace(spec, outputs=(JobOutput(path, "s3://acme-models/m"),))
    assert [where for where, _ in refused(spec)] == ["outputs.0.path"]


def test_destinations_that_overlap_are_refused() -> None:
    """Destinations may not overlap with each other, with an input, or with the location of the checkpoints."""
    outputs = (JobOutput("/out/a", "s3://acme-models/m"), JobOutput("/out/b", "s3://acme-models/m/b"))
    assert [where for where, _ in refused(replace(JOB, outputs=outputs))] == ["outputs.1.destination"]
    spec = replace(with_input("s3://acme/v7"), outputs=(JobOutput("/out", "s3://acme/v7/out"),))
    assert [where for where, _ in refused(spec)] == ["outputs.0.destination"]
    spec = replace(
        with_output("/out", "gs://acme/run"), checkpoint=CheckpointPlan("gs://acme/run/ck", uploads_itself=True)
    )
    assert "outputs.0.destination" in [where for where, _ in refused(spec)]


def test_a_neighbour_with_a_longer_name_is_no_overlap() -> None:
    """`run-1` and `run-12` are two places."""
    outputs = (JobOutput("/out/a", "s3://acme/run-1"), JobOutput("/out/a-b", "s3://acme/run-12"))
    assert refused(replace(JOB, outputs=outputs)) == []


def test_a_file_written_in_a_container_without_a_mount_is_refused() -> None:
    """A file's folder could be mounted, but an image's own folder must not be hidden by a mount."""
    spec = replace(with_output("/app/model.pt"), image="ghcr.io/lab/train:v1")
    ((where, message),) = refused(spec)
    assert where == "outputs.0.path"
    assert "mount" in message
    assert refused(replace(spec, mounts=("/srv/out:/app",))) == []


def test_a_credential_in_an_address_is_refused_and_not_repeated() -> None:
    """Addresses are shown on pages and stored."""
    problems = refused(with_input(f"s3://{AWS}@acme-data/v7"))
    assert [where for where, _ in problems] == ["inputs.0.source"]
    assert AWS not in str(problems)


def test_a_development_vm_takes_no_data() -> None:
    """Nothing runs on it by itself, so nothing would be downloaded or published."""
    spec = replace(with_input("s3://acme-data/v7"), kind=JobKind.DEV, command=())
    assert [where for where, _ in refused(spec)] == ["inputs"]


def with_result(publish_to: str) -> JobSpec:
    plan = CheckpointPlan("s3://acme/run", "--from {checkpoint}", local="/out", publish_to=publish_to)
    return replace(JOB, checkpoint=plan)


def test_place_of_the_result_is_checked_as_those_of_outputs_are() -> None:
    """The address is, and what it would be mixed with: inputs, outputs, the checkpoints."""
    assert refused(with_result("s3://acme/models/bert")) == []
    for place in ("models/bert", "s3://acme/.costguard/x", "s3://acme/run", "s3://acme/run/best", "s3://acme"):
        assert "checkpoint.publish_to" in [where for where, _ in refused(with_result(place))], place
    spec = replace(with_result("s3://acme/m"), outputs=(JobOutput("/model", "s3://acme/m/final"),))
    assert [where for where, _ in refused(spec)] == ["checkpoint.publish_to"]
    spec = replace(with_result("s3://acme/v7/m"), inputs=(JobInput("s3://acme/v7", "/data"),))
    assert [where for where, _ in refused(spec)] == ["checkpoint.publish_to"]


def test_place_that_an_open_job_publishes_to_is_taken() -> None:
    """Outputs and results are alike."""
    result, output = with_result("s3://acme/m"), with_output("/model", "s3://acme/m/final")
    for mine, other, where in (
        (result, output, "checkpoint.publish_to"),
        (output, result, "outputs.0.destination"),
        (result, result, "checkpoint.publish_to"),
    ):
        (refusal,) = taken_problems(mine, [job(**{name: getattr(other, name) for name in ("checkpoint", "outputs")})])
        assert refusal.where == where
        assert "publishes there too" in refusal.message
    assert not list(taken_problems(result, [job(checkpoint=with_result("s3://acme/m2").checkpoint)]))
