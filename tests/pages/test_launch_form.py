"""What is typed into the launch form, and what is submitted for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.jobs.job_service import SPEC

from costguard.jobs.submit import Overrides
from costguard.model.checkpoint import Framework, LookFor
from costguard.model.job import CheckpointPlan, JobKind
from costguard.model.money import Money
from costguard.pages import launch_form

WHOLE = {
    "kind": "training", "preset": "t4", "project": " lab ", "name": "resnet", "owner": "not read here",
    "command": "python train.py \\\r\n  --name 'a b'\r\n", "image": "ghcr.io/lab/train:v1", "workdir": "/work",
    "mounts": "/var/data:/data:ro\r\n/tmp:/tmp", "environment": "EPOCHS=3\r\n\r\nURL=a=b",
    "secrets": "KEY=projects/p/secrets/s",
    "checkpoint.location": "gs://lab/run", "checkpoint.resume": "--from {checkpoint}", "checkpoint.framework": "keras",
    "checkpoint.pattern": "ckpt_{step}", "checkpoint.marker": "DONE", "step_pattern": "it (\\d+)", "ceiling": "$12.50",
    "deadline": "2026-11-21T08:00", "expected_hours": "1.5", "max_preemptions": "0", "max_crashes": "2",
    "overrides.zones": "us-central1-a, us-central1-b", "overrides.spot": "no", "overrides.on_demand_fallback": "yes",
    "overrides.machine_type": "n1-standard-8", "overrides.disk_gib": "200", "overrides.max_run_hours": "24",
    "overrides.image": "projects/p/global/images/family/f", "unknown": "left alone",
}  # fmt: skip


def test_everything_that_is_typed_is_submitted() -> None:
    """In the words of the engine, as over REST; hours are those of the quote."""
    form = launch_form.submission(WHOLE, "ada@lab.example")
    spec, overrides = form.submission.spec, form.submission.overrides
    assert form.wrong == ()
    assert (spec.project, spec.owner, spec.name) == ("lab", "ada@lab.example", "resnet")
    assert spec.command == ("python", "train.py", "--name", "a b")
    assert spec.environment == {"EPOCHS": "3", "URL": "a=b"}
    assert spec.secrets == {"KEY": "projects/p/secrets/s"}
    assert spec.mounts == ("/var/data:/data:ro", "/tmp:/tmp")
    look = LookFor(Framework.KERAS, "ckpt_{step}", "DONE")
    assert spec.checkpoint == CheckpointPlan("gs://lab/run", "--from {checkpoint}", look)
    assert spec.ceiling == Money.of("12.50")
    assert spec.deadline == datetime(2026, 11, 21, 8, tzinfo=UTC)
    assert spec.expected == form.hours == timedelta(minutes=90)
    assert (spec.max_preemptions, spec.max_crashes) == (0, 2)
    day = timedelta(days=1)
    zones = ("us-central1-a", "us-central1-b")
    image = "projects/p/global/images/family/f"
    assert overrides == Overrides(zones, False, "n1-standard-8", 200, day, True, image)


def test_an_empty_form_asks_for_what_the_preset_has() -> None:
    """Nothing is made up: an hour is quoted, nothing is overridden."""
    form = launch_form.submission({"preset": "t4", "command": "python train.py"}, "ada@lab.example")
    assert form.submission.spec == SPEC
    assert form.submission.overrides == Overrides()
    assert (form.hours, form.wrong) == (timedelta(hours=1), ())


def test_a_vm_to_work_on_is_asked_for_without_what_it_has_not() -> None:
    """What was typed for a training before the choice was changed is left out, right or wrong."""
    form = launch_form.submission({**WHOLE, "kind": "dev", "environment": "wrong"}, "ada@lab.example")
    spec = form.submission.spec
    assert (spec.kind, spec.command, spec.checkpoint, spec.environment) == (JobKind.DEV, (), None, {})
    assert (spec.ceiling, form.submission.overrides.disk_gib, form.wrong) == (Money.of("12.50"), 200, ())


def test_what_cannot_be_read_is_said_beside_its_field() -> None:
    """All at once, without a word of what was typed: it may be a secret in the wrong place."""
    secret = "hunter2"
    wrong = {
        "command": f"echo '{secret}", "environment": f"A=1\n{secret}", "secrets": f"A={secret}\nA=2", "ceiling": secret,
        "expected_hours": "0", "deadline": secret, "max_crashes": "-1", "max_preemptions": "99999",
        "overrides.disk_gib": "1.5", "overrides.max_run_hours": "1e400", "image": "x" * (launch_form.LONGEST + 1),
    }  # fmt: skip
    form = launch_form.submission({"preset": "t4", **wrong}, "")
    assert sorted(mistake.where for mistake in form.wrong) == sorted(wrong)
    assert not any(secret in mistake.message for mistake in form.wrong)
    assert all(mistake.message.endswith(".") and ":" in mistake.message for mistake in form.wrong)


def test_refusals_find_their_fields() -> None:
    """A variable's belong to all of them; what no field is about has none."""
    for where, field in (
        ("command", "command"), ("environment.EPOCHS", "environment"), ("secrets.KEY", "secrets"),
        ("checkpoint.location", "checkpoint.location"), ("overrides.zones", "overrides.zones"),
        ("budget", ""), ("guard_url", ""),
    ):  # fmt: skip
        assert launch_form.field_of(where) == field
