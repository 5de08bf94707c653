"""Settings of jobs: how VMs are launched, where they reach the guard, and what happens at a budget's limit."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest
from tests.settings.reading import read, refused

from costguard.access.rules import JobRules
from costguard.gce.machine_types import by_rule
from costguard.gce.prices import snapshot_prices
from costguard.jobs.submit.submission import OVERRIDES
from costguard.ledger.billed.machine_parts import parts_of_shape
from costguard.model.budget import AtLimit, Scope
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.job import Terms
from costguard.model.launch import Recipe
from costguard.model.preset import Preset
from costguard.settings.jobs import Override
from costguard_sandbox.gce.catalogue.machine_types import ACCELERATOR_TYPES

GOOD = '[watch]\nprojects = ["ml-training"]\n'
BUDGET = GOOD + "[budgets.x]\nlimit = 10\nperiod = 'day'\n"
T4 = GOOD + "[presets.t4.launch]\n"
OWN = GOOD + '[presets.own]\nlimit = "never"\n[presets.own.launch]\nmachine_type = "n1-standard-4"\n'
SHIPPED = ("t4", "a100", "multi-gpu")


def presets(tmp_path: Path, text: str) -> dict[str, Preset]:
    return {preset.name: preset for preset in read(tmp_path, text).preset_list()}


def recipe_of(tmp_path: Path, name: str, text: str = GOOD) -> Recipe:
    section = presets(tmp_path, text)[name].launch
    assert section is not None
    return section


SOLD = (ProvisioningModel.STANDARD, ProvisioningModel.SPOT)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_recipes_can_be_had(tmp_path: Path, name: str) -> None:
    """Each zone has the GPUs, and the shipped prices know all parts of the VM there, Spot and on-demand."""
    recipe = recipe_of(tmp_path, name)
    machine = by_rule(recipe.machine_type)
    assert machine is not None
    shape = recipe.shape(Shape(recipe.machine_type, *machine))
    priced = {(price.key.resource, price.key.region, price.key.provisioning_model) for price in snapshot_prices()}
    for zone in recipe.zones:
        assert recipe.gpu_type in ACCELERATOR_TYPES[zone]
        region = zone.rpartition("-")[0]
        parts = {(part.resource, region, model) for part in parts_of_shape(shape) for model in SOLD}
        assert len(parts) == 6
        assert parts | {(f"disk:{recipe.disk_type}", region, ProvisioningModel.STANDARD)} <= priced
    assert recipe.attaches_gpus == (machine.gpu_count == 0)
    assert recipe.attaches_gpus or (machine.gpu_type, machine.gpu_count) == (recipe.gpu_type, recipe.gpu_count)


def test_shipped_recipes(tmp_path: Path) -> None:
    """They ask for Spot, run no longer than their preset's limit, and can be had otherwise by operators."""
    sections = presets(tmp_path, GOOD)
    assert sections["other"].launch is None
    for name in SHIPPED:
        recipe = sections[name].launch
        assert recipe is not None
        assert recipe.provisioning_model is ProvisioningModel.SPOT
        assert recipe.max_run == sections[name].limit
        assert set(sections[name].may_override) == {*OVERRIDES} - {"machine_type"}
    assert set(get_args(Override)) == set(OVERRIDES)


def test_single_keys_of_a_shipped_recipe(tmp_path: Path) -> None:
    """A key in the file replaces that key alone; zones are replaced as a whole."""
    text = T4 + (
        'zones = ["europe-west4-b"]\nbuy = "demand"\nmax_run = "2d"\nnetwork = "train"\nsubnetwork = "gpu"\n'
        'service_account = "default"\ndev_image = "global/images/dev"\nlabels = { cost-centre = "12" }\n'
        "overrides = []\n"
    )
    t4 = presets(tmp_path, text)["t4"]
    recipe = t4.launch
    assert recipe is not None
    assert (recipe.machine_type, recipe.gpu_type, recipe.attaches_gpus) == ("n1-standard-8", "nvidia-tesla-t4", True)
    assert (recipe.zones, recipe.provisioning_model) == (("europe-west4-b",), ProvisioningModel.STANDARD)
    assert (recipe.max_run, t4.limit) == (timedelta(days=2), timedelta(hours=8))
    assert (recipe.network, recipe.subnetwork) == ("global/networks/train", "gpu")
    assert (recipe.service_account, recipe.labels) == ("default", {"cost-centre": "12"})
    assert (t4.dev_image, t4.may_override) == ("global/images/dev", ())


def test_a_recipe_of_ones_own(tmp_path: Path) -> None:
    """Machine type and zones are enough; without a limit of the preset each VM still ends, after a week."""
    recipe = recipe_of(tmp_path, "own", OWN + 'zones = ["us-central1-a"]\n')
    assert (recipe.gpu_type, recipe.gpu_count, recipe.attaches_gpus) == ("", 0, False)
    assert recipe.max_run == timedelta(days=7)
    assert recipe.image.startswith("projects/deeplearning-platform-release/global/images/family/")
    assert recipe.service_account == ""


def test_terms(tmp_path: Path) -> None:
    """The terms that are not set are as the policy has it; the certificates come from their file."""
    assert read(tmp_path, GOOD).rules().jobs == JobRules()
    ca = tmp_path / "ca.pem"
    ca.write_text("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n")
    text = f'[jobs]\nguard_url = "https://guard.example.com/"\nguard_ca_file = "{ca}"\nsilence = "5m"\ncrash_loop = 2\n'
    jobs = read(tmp_path, GOOD + text).rules().jobs
    assert (jobs.guard_url, jobs.guard_ca) == ("https://guard.example.com", ca.read_text())
    assert jobs.terms == Terms(silence=timedelta(minutes=5), crash_loop=2)
    local = read(tmp_path, GOOD + '[jobs]\nguard_url = "http://127.0.0.1:8765"\n')
    assert local.rules().jobs.guard_url == "http://127.0.0.1:8765"


def test_budgets_at_their_limit(tmp_path: Path) -> None:
    """A budget tells, refuses or stops, and may be of one job."""
    (budget,) = read(tmp_path, BUDGET).budget_list()
    assert budget.at_limit is AtLimit.TELL
    (stops,) = read(tmp_path, BUDGET + "at_limit = 'stop-spot'\nscope = { job = 'j7k2m9q4' }\n").budget_list()
    assert (stops.at_limit, stops.scope) == (AtLimit.STOP_SPOT, Scope(job="j7k2m9q4"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (OWN, "presets.own.launch.zones: missing; expected zones, the preferred one first"),
        (
            GOOD + "[presets.own]\nlimit='1h'\nlaunch.zones=['us-central1-a']\n",
            "machine_type: missing; expected a mach",
        ),
        (T4 + 'zones = ["us-central1"]\n', 'zones[0]: given "us-central1", expected a zone such as us-central1-a'),
        (T4 + 'zones = ["us-central1-a", "us-central1-a"]\n', "each zone once"),
        (T4 + "zones = []\n", "at least one"),
        (T4 + "gpu_count = 0\n", "expected gpu_type and gpu_count together"),
        (T4 + 'max_run = "5m"\n', "expected a time from 10m to 120d"),
        (T4 + 'max_run = "121d"\n', "expected a time from 10m to 120d"),
        (T4 + "disk_gib = 5\n", "expected at least 10"),
        (T4 + 'image = "ubuntu"\n', "expected an image or a family of images, such as projects/"),
        (T4 + 'service_account = "ana@example.com"\n', "expected a service account's address"),
        (T4 + 'scopes = ["cloud-platform"]\n', "expected an access scope such as https://"),
        (T4 + 'network = "Default"\n', "expected a network's name"),
        (
            T4 + 'subnetwork = "regions/europe-west4/subnetworks/a"\n',
            "expected zones of europe-west4, where the subnet",
        ),
        (
            T4 + 'machine_type = "a4-highgpu-8g"\nspot = false\n',
            "Google sells a4-highgpu-8g as Spot, by flex-start or by reservation, not on demand",
        ),
        (
            T4 + 'machine_type = "a3-ultragpu-8g"\non_demand_fallback = true\n',
            "turn on_demand_fallback off",
        ),
        (T4 + 'machine_type = "a4x-highgpu-4g"\n', "Google sells a4x-highgpu-4g by reservation only"),
        (T4 + 'labels = { costguard-job = "x" }\n', "expected labels that do not begin with costguard-"),
        (
            T4 + 'labels = { batch-job-uid = "x" }\n',
            "expected labels without batch-job-uid, which marks VMs",
        ),
        (T4 + 'labels = { owner = "ana" }\n', "launch.labels.owner: no such key; the label owner names the owner"),
        (T4 + 'overrides = ["zone"]\n', "did you mean zones?"),
        (T4 + 'zone = "us-central1-a"\n', "no such key (did you mean zones?)"),
        (GOOD + '[presets.other.launch]\nmachine_type = "e2-small"\n', "presets.other.launch: no such key"),
        (
            GOOD + '[jobs]\nguard_url = "http://guard.example.com"\n',
            "expected where VMs reach this server, such as https",
        ),
        (GOOD + '[jobs]\nguard_url = "guard.example.com"\n', "expected where VMs reach this server, such as https"),
        (GOOD + '[jobs]\nguard_ca_file = "/nowhere/ca.pem"\n', "cannot be read: No such file or directory"),
        (GOOD + '[jobs]\ndying = "10s"\n', "expected a time from 30s to 10m"),
        (GOOD + '[jobs]\nfirst_wait = "30m"\n', "expected first_wait no longer than longest_wait"),
        (BUDGET + "scope = { job = 'J 1' }\n", "expected a job's id, such as j7k2m9q4"),
    ],
)
def test_what_cannot_be(tmp_path: Path, text: str, sentence: str) -> None:
    """A wrong zone, image, label, address or reference is reported with what to write instead."""
    assert sentence in refused(tmp_path, text).message


def test_a_key_is_no_certificate(tmp_path: Path) -> None:
    """A file with a private key is never sent to VMs."""
    wrong = tmp_path / "key.pem"
    wrong.write_text("-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n")
    assert "no private key" in refused(tmp_path, f'{GOOD}[jobs]\nguard_ca_file = "{wrong}"\n').message
