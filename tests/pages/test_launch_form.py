"""The launch form's text is read into a submission."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.jobs import job_rows
from tests.jobs.job_service import SPEC

from costguard.jobs.submit.submit import Overrides
from costguard.model.job import CheckpointPlan, JobCode, JobInput, JobKind, JobMetric, JobOutput, WhenLate
from costguard.model.money import Money
from costguard.pages import launch_form
from costguard_vm.model.checkpoint import Framework, LookFor

WHOLE = {
    "kind": "training", "preset": "t4", "project": " lab ", "name": "resnet", "owner": "not read here",
    "command": "python train.py \\\r\n  --name 'a b'\r\n", "image": "ghcr.io/lab/train:v1", "workdir": "/work",
    "mounts": "/var/data:/data:ro\r\n/tmp:/tmp", "environment": "EPOCHS=3\r\n\r\nURL=a=b",
    "secrets": "KEY=projects/p/secrets/s",
    "checkpoint.location": "gs://lab/run", "checkpoint.resume": "--from {checkpoint}", "checkpoint.framework": "keras",
    "checkpoint.pattern": "ckpt_{step}", "checkpoint.marker": "DONE", "step_pattern": "it (\\d+)", "ceiling": "$12.50",
    "deadline": "2026-11-21T08:00", "work_hours": "1.5", "max_preemptions": "0", "max_crashes": "2",
    "overrides.zones": "us-central1-a, us-central1-b", "overrides.buy": "demand", "overrides.on_demand_fallback": "yes",
    "overrides.machine_type": "n1-standard-8", "overrides.disk_gib": "200", "overrides.max_run_hours": "24",
    "overrides.image": "projects/p/global/images/family/f", "unknown": "left alone",
    "inputs": "s3://acme-data/v7=/data\r\ngs://lab/day=7=/more", "outputs": "/data/model=s3://acme-models/run=12",
    "checkpoint.local": "/data/out", "checkpoint.keep": "5", "checkpoint.uploads_itself": "yes", "code": "j7k2m9q4",
    "setup": "pip install -e .", "aws_role": "arn:aws:iam::123456789012:role/train", "bandwidth_mib_s": "50",
    "metric.pattern": "val_acc (\\S+)", "metric.better": "higher", "stacks": "yes",
    "deadline_in_hours": "18", "total_steps": "30,000", "when_late": "stop",
}  # fmt: skip
CODE = JobCode("ab" * 32, 1_000, 3, "c0ffee", "main", "+ print()")


def code_of(job_id: str) -> JobCode:
    if job_id != "j7k2m9q4":
        raise ValueError("There is no job with this id: look for it under Jobs.")
    return CODE


def test_everything_that_is_typed_is_submitted() -> None:
    """The submission is in the words of the engine, as over REST; hours are those of the quote."""
    form = launch_form.submission(WHOLE, "ada@lab.example", code_of)
    spec, overrides = form.submission.spec, form.submission.overrides
    assert form.wrong == ()
    assert (spec.project, spec.owner, spec.name) == ("lab", "ada@lab.example", "resnet")
    assert spec.command == ("python", "train.py", "--name", "a b")
    assert spec.environment == {"EPOCHS": "3", "URL": "a=b"}
    assert spec.secrets == {"KEY": "projects/p/secrets/s"}
    assert spec.mounts == ("/var/data:/data:ro", "/tmp:/tmp")
    look = LookFor(Framework.KERAS, "ckpt_{step}", "DONE")
    assert spec.checkpoint == CheckpointPlan("gs://lab/run", "--from {checkpoint}", look, "/data/out", 5, True)
    assert spec.ceiling == Money.of("12.50")
    assert spec.deadline == datetime(2026, 11, 21, 8, tzinfo=UTC)
    assert spec.work == form.hours == timedelta(minutes=90)
    assert (spec.deadline_in, spec.total_steps, spec.when_late) == (timedelta(hours=18), 30_000, WhenLate.STOP)
    assert (spec.max_preemptions, spec.max_crashes) == (0, 2)
    day = timedelta(days=1)
    zones = ("us-central1-a", "us-central1-b")
    image = "projects/p/global/images/family/f"
    assert overrides == Overrides(zones, "demand", None, "n1-standard-8", 200, day, True, image)


def test_data_code_and_metric_are_submitted() -> None:
    """An equals sign in a bucket's path separates nothing; the code is that of the job which the form names."""
    spec = launch_form.submission(WHOLE, "ada@lab.example", code_of).submission.spec
    assert spec.inputs == (JobInput("s3://acme-data/v7", "/data"), JobInput("gs://lab/day=7", "/more"))
    assert spec.outputs == (JobOutput("/data/model", "s3://acme-models/run=12"),)
    assert (spec.code, spec.setup) == (CODE, "pip install -e .")
    assert (spec.aws_role, spec.bandwidth_mib_s) == ("arn:aws:iam::123456789012:role/train", 50)
    assert spec.metric == JobMetric(r"val_acc (\S+)", "higher")
    assert spec.stacks is True


def test_the_form_of_another_like_a_job_submits_the_same() -> None:
    """Everything but what overrides the preset, and the deadline, which is over."""
    spec = launch_form.submission(WHOLE, "ada@lab.example", code_of).submission.spec
    job = replace(job_rows.job("j7k2m9q4"), spec=spec)
    form = launch_form.submission(launch_form.like(job), "ada@lab.example", code_of)
    assert form.wrong == ()
    assert form.submission.spec == replace(spec, deadline=None)


def test_an_empty_form_asks_for_what_the_preset_has() -> None:
    """Nothing is made up: an hour is quoted, nothing is overridden."""
    form = launch_form.submission({"preset": "t4", "command": "python train.py"}, "ada@lab.example", code_of)
    assert form.submission.spec == SPEC
    assert form.submission.overrides == Overrides()
    assert (form.hours, form.wrong) == (timedelta(hours=1), ())


def test_a_vm_to_work_on_is_asked_for_without_what_it_has_not() -> None:
    """Text typed for a training before the choice was changed is left out, right or wrong."""
    form = launch_form.submission({**WHOLE, "kind": "dev", "environment": "wrong"}, "ada@lab.example", code_of)
    spec = form.submission.spec
    assert (spec.kind, spec.command, spec.checkpoint, spec.environment) == (JobKind.DEV, (), None, {})
    assert (spec.ceiling, form.submission.overrides.disk_gib, form.wrong) == (Money.of("12.50"), 200, ())


def test_what_cannot_be_read_is_said_beside_its_field() -> None:
    """All at once, without a word of what was typed: it may be a secret in the wrong place."""
    secret = "hunter2"
    wrong = {
        "command": f"echo '{secret}", "environment": f"A=1\n{secret}", "secrets": f"A={secret}\nA=2", "ceiling": secret,
        "work_hours": "0", "deadline": secret, "max_crashes": "-1", "max_preemptions": "99999",
        "overrides.disk_gib": "1.5", "overrides.max_run_hours": "1e400", "image": "x" * (launch_form.LONGEST + 1),
        "inputs": f"s3://a/b=/c\n{secret}", "outputs": f"/data={secret}", "checkpoint.keep": "1001", "code": secret,
        "bandwidth_mib_s": "0", "deadline_in_hours": "soon", "total_steps": "0",
    }  # fmt: skip
    form = launch_form.submission({"preset": "t4", **wrong}, "", code_of)
    assert sorted(mistake.where for mistake in form.wrong) == sorted(wrong)
    assert not any(secret in mistake.message for mistake in form.wrong)
    assert all(mistake.message.endswith(".") and ":" in mistake.message for mistake in form.wrong)


def test_refusals_find_their_fields() -> None:
    """A variable's belong to all of them; what no field is about has none."""
    for where, field in (
        ("command", "command"), ("environment.EPOCHS", "environment"), ("secrets.KEY", "secrets"),
        ("checkpoint.location", "checkpoint.location"), ("overrides.zones", "overrides.zones"),
        ("inputs.0.path", "inputs"), ("outputs.1.destination", "outputs"), ("metric", "metric.pattern"),
        ("budget", ""), ("guard_url", ""),
    ):  # fmt: skip
        assert launch_form.field_of(where) == field
