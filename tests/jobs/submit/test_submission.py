"""Wrong requests for a job are refused, with what to change."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from costguard.access.rules import Access, Rules
from costguard.jobs.submit import submission
from costguard.jobs.submit.check import checks
from costguard.jobs.submit.check.checks import ImageReference
from costguard.jobs.submit.cost import offers
from costguard.jobs.submit.cost.offers import HourlyRate
from costguard.jobs.submit.submission import Overrides
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.job import CheckpointPlan, JobKind, JobMetric, JobSpec
from costguard.model.launch import Recipe
from costguard.model.money import Money
from costguard.model.reminder import Team
from costguard_vm.model.checkpoint import Framework, LookFor

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
GUARD = "https://guard.example"
JOB = JobSpec(JobKind.TRAINING, "a100", "lab", "ana@lab.example", command=("python", "train.py"))
A100 = Recipe(
    "a2-highgpu-1g", ("us-central1-a", "us-central1-b"), "global/images/i", timedelta(days=1), "nvidia-tesla-a100", 1
)
T4 = Recipe(
    "n1-standard-8", ("us-central1-a",), "global/images/i", timedelta(days=1), "nvidia-tesla-t4", 1, attaches_gpus=True
)
IN_CENTRAL = replace(A100, subnetwork="regions/us-central1/subnetworks/training")
TWO_A100 = Shape("a2-highgpu-2g", 24, 1, "nvidia-tesla-a100", 2)
DIGEST = "sha256:" + "0123456789abcdef" * 4
# Made to look real, and put together so that no scanner of this repository takes them for it.
HUGGING_FACE = "hf_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z"
AWS = "AKIA" + "IOSFODNN7EXAMPL3"
RANDOM = "q8Zt4LxP0vRw7KsN2mYb"


def result(**changed: Any) -> list[tuple[str, str]]:
    refusals = checks.problems(replace(JOB, **changed), GUARD, NOW)
    return [(refusal.where, refusal.message) for refusal in refusals]


def plan(resume: str = "", location: str = "gs://bucket/run", framework: Framework | None = None) -> CheckpointPlan:
    return CheckpointPlan(location, resume, LookFor(framework), uploads_itself="://" in location)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"name": "Größeres Modell, Lauf 3"},
        {"command": (), "image": "ghcr.io/lab/train:v1"},
        {
            "command": (
                "python",
                "train.py",
                "--max_tokens=4096",
                "--tokenizer=bert-base-uncased",
                "--token",
                "$HF_TOKEN",
            )
        },
        {"command": ("bash", "-c", "HF_TOKEN=$(cat /run/token) python train.py")},
        {"environment": {"TOKENIZERS_PARALLELISM": "false", "SECRET": "projects/p/secrets/s", "PORT_TOKEN": "short"}},
        {"secrets": {"HF_TOKEN": "projects/lab/secrets/hf/versions/3", "W": "projects/lab/secrets/w"}},
        {"checkpoint": plan()},
        {"checkpoint": plan("--from {checkpoint} --at '{step}' --options '{\"a\": 1}'")},
        {"checkpoint": plan("--load {location}", framework=Framework.MEGATRON)},
        {"checkpoint": plan("--resume {location}", "/var/checkpoints")},
        {"checkpoint": plan("--resume {checkpoint}"), "command": ("bash", "-c", 'python train.py "$@"', "train")},
        {"metric": JobMetric(r"val_loss (\S+)", "higher")},
        {"step_pattern": r"it (\d+)", "ceiling": Money.of(5), "deadline": NOW + timedelta(days=1)},
        {"image": "i", "mounts": ("/data:/data:ro", "/c:/ck"), "workdir": "/w", "checkpoint": plan("", "/ck/run")},
        {"kind": JobKind.DEV, "command": ()},
    ],
)
def test_what_is_sound_is_taken(changed: dict[str, Any]) -> None:
    """Nothing is said of a job that can be run, however odd it looks."""
    assert result(**changed) == []


@pytest.mark.parametrize(
    ("changed", "where", "words"),
    [
        ({"owner": ""}, "owner", "Nobody is named"),
        ({"owner": "ana"}, "owner", "'ana' is no mail address"),
        ({"name": "a\nb"}, "name", "no line break"),
        ({"name": "x" * 81}, "name", "at most 80"),
        ({"command": ()}, "command", "neither a command nor an image"),
        ({"command": (" ", "x")}, "command", "first word"),
        ({"command": ("python", "a\x00")}, "command", "NUL"),
        ({"command": ("python", "x" * 210_000)}, "command", "have room for 200"),
        ({"image": "ghcr.io/Lab/train"}, "image", "such as europe-docker.pkg.dev"),
        ({"mounts": ("/a:/b",)}, "mounts", "without an image"),
        ({"image": "i", "mounts": ("a:/b",)}, "mounts", "'a:/b' is no mount"),
        ({"workdir": "work"}, "workdir", "begin it with a slash"),
        ({"step_pattern": "(step"}, "step_pattern", "no regular expression"),
        ({"step_pattern": "step"}, "step_pattern", "no group"),
        ({"metric": JobMetric("(loss")}, "metric.pattern", "no regular expression"),
        ({"metric": JobMetric("loss")}, "metric.pattern", "no group"),
        ({"environment": {"1A": "x"}}, "environment", "'1A' is no name"),
        ({"environment": {"COSTGUARD_RUN": "x"}}, "environment", "the guard's own"),
        ({"environment": {"A": "\x00"}}, "environment", "NUL"),
        ({"secrets": {"A": "hunter2"}}, "secrets.A", "never the secret itself"),
        ({"secrets": {"A": "projects/p/secrets/s"}, "environment": {"A": "1"}}, "secrets.A", "as well"),
        ({"checkpoint": plan("--from {checkpoint}", "")}, "checkpoint.location", "does not say where"),
        ({"checkpoint": plan("--from")}, "checkpoint.resume", "put {checkpoint} into it"),
        ({"checkpoint": plan("--from {location}")}, "checkpoint.resume", "put {checkpoint} into it"),
        ({"checkpoint": plan("--from {ckpt} {checkpoint}")}, "checkpoint.resume", "{ckpt} stands for nothing"),
        ({"checkpoint": plan("--from '{checkpoint}")}, "checkpoint.resume", "not closed"),
        ({"checkpoint": plan("--x {checkpoint} {step}", "/ck")}, "checkpoint.resume", "leave {step} out"),
        ({"command": (), "image": "i", "checkpoint": plan("--r {checkpoint}")}, "checkpoint.resume", "whole command"),
        (
            {"command": ("/bin/bash", "-lc", "python train.py"), "checkpoint": plan("--r {checkpoint}")},
            "checkpoint.resume",
            "after the shell's script",
        ),
        ({"checkpoint": plan("", "run/1")}, "checkpoint.location", "'run/1' is no location"),
        ({"checkpoint": plan("", "/tmp/run")}, "checkpoint.location", "gone once the VM was stopped"),
        ({"image": "i", "checkpoint": plan("", "/ck")}, "checkpoint.location", "go with it"),
        ({"deadline": NOW}, "deadline", "2026-11-20 12:00 UTC has passed"),
        ({"ceiling": Money(0)}, "ceiling", "more than nothing"),
        ({"work": timedelta()}, "work_hours", "more than nothing"),
        ({"max_vm_time": timedelta(minutes=9)}, "max_vm_hours", "at least 10 min, and at most a year"),
        ({"kind": JobKind.DEV}, "command", "runs nothing by itself"),
        ({"kind": JobKind.DEV, "command": (), "image": "i"}, "image", "overrides.image"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_to_change(changed: dict[str, Any], where: str, words: str) -> None:
    """The refusal is one sentence about the part that is wrong, and nothing else is wrong."""
    ((part, message),) = result(**changed)
    assert part == where
    assert words in message


def test_everything_is_said_at_once() -> None:
    """Nobody mends one thing only to hear of the next."""
    wrong = result(owner="", name="\t", command=(), deadline=NOW, secrets={"9": "x"})
    assert [where for where, _ in wrong] == ["owner", "name", "command", "secrets", "secrets", "deadline"]


def test_without_the_guards_own_address_no_agent_could_report() -> None:
    """The setting is named; a development VM has no agent, and needs none."""
    (refusal,) = checks.problems(JOB, "", NOW)
    assert "guard_url under [jobs]" in refusal.message
    assert checks.problems(replace(JOB, kind=JobKind.DEV, command=()), "", NOW) == []


@pytest.mark.parametrize(
    ("changed", "where", "kind", "secret"),
    [
        ({"command": ("python", f"--hub={HUGGING_FACE}")}, "command", "Hugging Face", HUGGING_FACE),
        ({"command": ("bash", "-c", f"export T={HUGGING_FACE}; train")}, "command", "Hugging Face", HUGGING_FACE),
        ({"command": ("train", "--password", "hunter2")}, "command", "a password (--password)", "hunter2"),
        ({"command": ("train", "--password=hunter2")}, "command", "a password (--password)", "hunter2"),
        ({"command": ("sh", "-c", "mysql --password hunter2")}, "command", "a password", "hunter2"),
        ({"command": ("env", f"WANDB_API_KEY={RANDOM}", "train")}, "command", "WANDB_API_KEY", RANDOM),
        ({"command": ("curl", "https://ana:hunter2@host/x")}, "command", "in an address", "hunter2"),
        ({"environment": {"AWS_ACCESS_KEY_ID": AWS}}, "environment.AWS_ACCESS_KEY_ID", "an AWS access key", AWS),
        ({"environment": {"dbPassword": "hunter2"}}, "environment.dbPassword", "a password", "hunter2"),
        ({"environment": {"MY_TOKEN": RANDOM}}, "environment.MY_TOKEN", "a secret (MY_TOKEN)", RANDOM),
        ({"environment": {"K": "-----BEGIN RSA PRIVATE KEY-----\nMII"}}, "environment.K", "a private key", "MII"),
        ({"environment": {"O": "sk-proj-" + RANDOM}}, "environment.O", "OpenAI", RANDOM),
        ({"environment": {"G": "ghp_" + "a1B2" * 9}}, "environment.G", "GitHub", "a1B2"),
        ({"environment": {"S": "xoxb-" + "1234567890-abc"}}, "environment.S", "Slack", "1234567890"),
        ({"environment": {"G": "AIza" + "b" * 35}}, "environment.G", "Google API key", "bbb"),
        ({"name": HUGGING_FACE}, "name", "Hugging Face", HUGGING_FACE),
        ({"checkpoint": plan(f"--t {HUGGING_FACE} {{checkpoint}}")}, "checkpoint.resume", "Hugging Face", HUGGING_FACE),
    ],
)
def test_credentials_are_refused_and_never_repeated(
    changed: dict[str, Any], where: str, kind: str, secret: str
) -> None:
    """Commands and environments are shown on pages and lie in a VM's metadata; a reference takes their place."""
    ((part, message),) = result(**changed)
    assert (part, kind in message, secret in message) == (where, True, False)


def test_no_refusal_repeats_a_credential_that_is_wrong_in_another_way_too() -> None:
    """Wherever someone pastes it: as a variable's name, a reference, an image or an address."""
    for changed in (
        {"secrets": {"A": HUGGING_FACE}},
        {"environment": {f"A={HUGGING_FACE}": "x"}},
        {"environment": {HUGGING_FACE: "x"}, "secrets": {HUGGING_FACE: "x"}},
        {"image": f"x:{HUGGING_FACE}!"},
        {"owner": HUGGING_FACE},
        {"workdir": HUGGING_FACE},
    ):
        assert not [message for where, message in result(**changed) if HUGGING_FACE in where + message]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train", ImageReference("", "train")),
        ("lab/train:v1", ImageReference("", "lab/train", "v1")),
        ("localhost:5000/a/b__c-d.e", ImageReference("localhost:5000", "a/b__c-d.e")),
        ("europe-docker.pkg.dev/p/r/i:t", ImageReference("europe-docker.pkg.dev", "p/r/i", "t")),
        ("gcr.io/my-project/train", ImageReference("gcr.io", "my-project/train")),
        (f"gcr.io/p/i:v2@{DIGEST}", ImageReference("gcr.io", "p/i", "v2", DIGEST)),
    ],
)
def test_images_are_read_as_docker_reads_them(text: str, expected: ImageReference) -> None:
    """The first part of a name is a registry only if it looks like a host."""
    assert checks.parse_image(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Train",
        "train:",
        "train:-x",
        "train:v1:v2",
        "train@sha256:12",
        f"train@md5:{'0' * 64}",
        f"@{DIGEST}",
        "a//b",
        "/a",
        "a/",
        "-x/y",
        "ghcr.io/",
        "ghcr.io:x/a",
        "https://ghcr.io/a",
        "a b",
        "a\n",
        "--privileged",
        "a___b",
        "x" * 600,
    ],
)
def test_what_is_no_image_is_refused(text: str) -> None:
    """Docker would refuse it after the VM was paid for, or take it for one of its own options."""
    with pytest.raises(ValueError, match=r"\w"):
        checks.parse_image(text)


def test_a_job_may_be_launched_otherwise_than_the_preset() -> None:
    """A machine type brings its own GPUs; each zone counts once."""
    wanted = Overrides(
        zones=("us-east1-b", "us-east1-b"),
        buy="demand",
        machine_type="a2-highgpu-2g",
        disk_gib=200,
        max_run=timedelta(hours=2),
        on_demand_fallback=True,
        image="global/images/family/f",
    )
    assert list(submission.override_problems(A100, wanted, TWO_A100)) == []
    made = submission.with_overrides(A100, wanted, TWO_A100)
    assert (made.zones, made.provisioning_model) == (("us-east1-b",), ProvisioningModel.STANDARD)
    assert (made.machine_type, made.gpu_count, made.disk_gib) == ("a2-highgpu-2g", 2, 200)
    assert (made.max_run, made.falls_back_to_on_demand) == (timedelta(hours=2), True)
    assert made.image == "global/images/family/f"
    assert submission.with_overrides(A100, Overrides()) == A100


@pytest.mark.parametrize(
    ("base", "wanted", "machine", "where", "words"),
    [
        (A100, Overrides(zones=()), None, "zones", "empty"),
        (A100, Overrides(zones=("mars",)), None, "zones", "'mars' is no zone"),
        (IN_CENTRAL, Overrides(zones=("us-east1-b",)), None, "zones", "where this preset's subnetwork is"),
        (A100, Overrides(machine_type="a9-huge"), None, "machine_type", "not known"),
        (A100, Overrides(machine_type="n1-standard-1"), Shape("n1-standard-1", 1, 1), "machine_type", "has no GPU"),
        (T4, Overrides(machine_type="e2-medium"), Shape("e2-medium", 2, 1), "machine_type", "N1 machine types alone"),
        (A100, Overrides(disk_gib=5), None, "disk_gib", "10 to 65536"),
        (A100, Overrides(max_run=timedelta(minutes=9)), None, "max_run_hours", "10 minutes to 120 days"),
        (A100, Overrides(image="ghcr.io/lab/x:1"), None, "image", "nothing to boot from"),
    ],
)
def test_overrides_that_cannot_be_are_refused(
    base: Recipe, wanted: Overrides, machine: Shape | None, where: str, words: str
) -> None:
    """Before Google is asked, which would refuse them too, or launch what no preset knows."""
    (refusal,) = submission.override_problems(base, wanted, machine)
    assert refusal.where == f"overrides.{where}"
    assert words in refusal.message


def test_who_may_launch_and_what_they_may_override() -> None:
    """Operators what the preset lets them, admins all; where nobody has a role, everybody is an operator."""
    zones, bigger = Overrides(zones=("us-central1-b",)), Overrides(machine_type="a2-highgpu-2g", buy="spot")
    access = Access(frozenset({"@lab.example"}), frozenset({"ana@lab.example"}), frozenset({"ada@lab.example"}))
    team = Team("vision", operators=frozenset({"tim@lab.example"}))

    def of(owner: str, wanted: Overrides, given: Access = access) -> list[str]:
        return [
            problem.where
            for problem in submission.launch_problems("a100", A100, wanted, owner, given, [team], {"zones"})
        ]

    assert of("eve@lab.example", zones) == ["owner"]  # a viewer
    assert of("ana@lab.example", zones) == of("tim@lab.example", zones) == of("eve@else.example", zones, Access()) == []
    assert of("Ana@lab.example", bigger) == of("eve@else.example", bigger, Access()) == ["overrides.machine_type"]
    assert of("ada@lab.example", bigger) == []


def test_who_may_cancel() -> None:
    """The owner, operators of the owner's team, and admins may cancel."""
    ana, ada = "ana@lab.example", "ada@lab.example"
    access = Access(operators=frozenset({ana}), admins=frozenset({ada}))

    def may(by: str, *teams: Team) -> bool:
        rules = Rules({}, access=access, teams=teams)
        return submission.cancel_refusal(f"{by}@lab.example", "Bob@lab.example", "lab", rules) is None

    assert [may(by) for by in ("bob", "ana", "eve", "ada")] == [True, False, False, True]
    vision = Team("vision", frozenset({"bob@lab.example", ana}), frozenset({"eve@lab.example"}))
    assert [may(by, vision) for by in ("ana", "eve", "mel")] == [True, True, False]


SPOT, USUAL = ProvisioningModel.SPOT, ProvisioningModel.STANDARD
RATES = {
    ("us-central1-a", SPOT): HourlyRate(Money.of("0.50"), Money.of("0.75"), Money.of("0.0075"), Money.of("0.0025")),
    ("us-central1-a", USUAL): HourlyRate(Money.of("1"), Money.of("3"), Money.of("0.015"), Money.of("0.005")),
    ("us-central1-b", SPOT): HourlyRate(Money.of("0.10"), None, Money.of("0.0075"), Money.of("0.0025")),
    ("us-central1-b", USUAL): HourlyRate(),
}


def test_prices_say_what_is_cheapest_and_what_spot_saves() -> None:
    """A place without a price is no bargain."""
    best = offers.cheapest(RATES, (SPOT, USUAL), timedelta(hours=2))
    assert best == offers.PlaceOffer("us-central1-a", SPOT, Money.of("1.26"), Money.of("2.52"))
    assert offers.cheapest({}, (SPOT,), timedelta(hours=2)) is None
    assert (offers.saving_percent(RATES, "us-central1-a"), offers.saving_percent(RATES, "us-central1-b")) == (68, None)
    assert RATES["us-central1-b", SPOT].unpriced == "its GPUs"


def test_zones_without_a_price_and_ceilings_that_pay_for_nothing_are_refused() -> None:
    """A zone of the preset's own may be unpriced: it is tried last. One that the job chose must have a price."""

    def of(rates: offers.HourlyRates, chosen: tuple[str, ...], ceiling: str | None) -> list[tuple[str, bool]]:
        limit = None if ceiling is None else Money.of(ceiling)
        return [
            (problem.where, "$0.21" in problem.message)
            for problem in offers.price_problems(rates, (SPOT,), chosen, limit)
        ]

    assert of(RATES, (), None) == of(RATES, ("us-central1-a",), "0.21") == []
    assert of(RATES, ("us-central1-b", "mars1-a"), "0.20") == [("overrides.zones", False)] * 2 + [("ceiling", True)]
    assert of({}, (), "100") == [("ceiling", False)]


@pytest.mark.parametrize(
    "piece", ["x", "-", "--a ", "a=", "eyJ-", "sk-", "a://", "://a:", "hf_", " ", "-----BEGIN A ", "a.b-"]
)
def test_long_and_hostile_texts_are_looked_through_in_no_time(piece: str) -> None:
    """A request must not hold the server up, whatever is repeated in it."""
    long = piece * (50_000 // len(piece))
    begun = time.process_time()
    result(command=("train", long), environment={"A": long}, name=long)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    ("guard_url", "is_refused"),
    [(GUARD, True), ("", True), ("http://127.0.0.1:8765", False), ("http://localhost:8765", False)],
)
def test_no_folder_of_the_guards_machine_is_looked_into_for_vms_elsewhere(guard_url: str, is_refused: bool) -> None:
    """VMs of the simulated cloud share it with the guard; Google's do not, and nobody is to list it that way."""
    spec = replace(JOB, checkpoint=plan("--from_checkpoint {checkpoint}", "file:///var/runs"))
    refusals = [problem.where for problem in checks.problems(spec, guard_url, NOW)]
    assert ("checkpoint.location" in refusals) is is_refused
