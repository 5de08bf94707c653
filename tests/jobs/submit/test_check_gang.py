"""Jobs of several VMs that are refused, or warned of, before money is spent."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.builders import at
from tests.jobs.world import RECIPE

from costguard.jobs.decide.buy.placement import places, used_up
from costguard.jobs.submit.check.check_gang import gang_problems, gang_recipe_problems, gang_warnings
from costguard.jobs.submit.check.checks import problems
from costguard.jobs.submit.cost.offers import HourlyRate
from costguard.model.instance import ProvisioningModel
from costguard.model.job import CheckpointPlan, JobInput, JobKind, JobSpec
from costguard.model.launch import Placement, Quota
from costguard.model.money import Money
from costguard_vm.model.checkpoint import Framework, LookFor

NOW: datetime = at("12:00")
SPOT = ProvisioningModel.SPOT


def spec(**given: Any) -> JobSpec:
    command = ("torchrun", "--nproc_per_node", "8", "train.py")
    values = {"kind": JobKind.TRAINING, "preset": "t4", "project": "p", "owner": "ana@example.com", "command": command}
    return JobSpec(**{**values, "nodes": 4, **given})


def refused(given: JobSpec) -> set[str]:
    return {one.where for one in problems(given, "https://guard.example.com", NOW)}


def test_several_vms_without_anything_else_are_accepted() -> None:
    """Nothing speaks against them."""
    assert refused(spec()) == set()


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"checkpoint": CheckpointPlan("/var/checkpoints", "--resume {checkpoint}")}, "checkpoint.location"),
        ({"kind": JobKind.DEV, "command": ()}, "nodes"),
        ({"drill": True, "checkpoint": CheckpointPlan("gs://b/run", "", uploads_itself=True)}, "drill"),
    ],
)
def test_what_several_vms_cannot_have_is_refused(given: dict[str, Any], where: str) -> None:
    """The same is accepted of one VM, or for another reason refused."""
    assert where in refused(spec(**given))


FLEX = replace(RECIPE, provisioning_model=ProvisioningModel.FLEX_START, service_account="vm@p.iam.gserviceaccount.com")


def test_a_placement_that_google_does_not_offer_is_refused() -> None:
    """Before money is spent, with the series that have it."""
    close = spec(placement=Placement.COMPACT)
    (refusal,) = gang_recipe_problems(close, RECIPE)
    assert refusal.where == "placement"
    assert "no compact placement for the machine series N1 (n1-standard-8)" in refusal.message
    assert "A2, A3, A4" in refusal.message
    g2 = replace(RECIPE, machine_type="g2-standard-8", gpu_type="nvidia-l4", attaches_gpus=False)
    assert list(gang_recipe_problems(close, g2)) == []
    assert [one.where for one in gang_recipe_problems(close, replace(g2, reservation="tests"))] == ["placement"]


def test_one_vm_stands_close_to_none() -> None:
    """The placement of one VM says nothing."""
    assert refused(spec(nodes=1, placement=Placement.COMPACT)) == {"placement"}
    assert refused(spec(placement=Placement.COMPACT)) == set()


def test_flex_start_gets_a_fixed_number_of_vms_at_once() -> None:
    """A group grants so many or none, and each of them proves by its account which it is."""
    assert list(gang_recipe_problems(spec(), FLEX)) == []
    assert list(gang_recipe_problems(spec(), RECIPE)) == []
    bare = replace(FLEX, service_account="")
    (problem,) = gang_recipe_problems(spec(), bare)
    assert problem.where == "overrides.buy"
    assert "this preset's VMs have none: give the preset launch.service_account" in problem.message
    assert list(gang_recipe_problems(spec(nodes=1), bare)) == []


def test_a_range_of_vms_is_refused_by_flex_start() -> None:
    """A grant of some of them is nothing that Google has."""
    (problem,) = gang_recipe_problems(spec(nodes=8, least_nodes=2), FLEX)
    assert problem.where == "nodes"
    assert "give one number, such as --nodes 8" in problem.message


@pytest.mark.parametrize(
    ("given", "account", "why"),
    [
        ({"nodes": 8, "least_nodes": 2}, "vm@p.iam.gserviceaccount.com", "their number is a range"),
        ({}, "", "its VMs have no service account"),
        ({}, "vm@p.iam.gserviceaccount.com", ""),
    ],
)
def test_the_cheapest_way_says_where_flex_start_is_left_out(given: dict[str, Any], account: str, why: str) -> None:
    """Spot and on demand are left, so that nothing is refused."""
    cheapest = replace(FLEX, machine_type="a2-highgpu-1g", service_account=account, buys_cheapest=True)
    assert list(gang_recipe_problems(spec(**given), cheapest)) == []
    said = [warning for warning in gang_warnings(spec(**given), cheapest) if "Flex-start is left out" in warning]
    assert [why in warning for warning in said] == ([True] if why else [])


@pytest.mark.parametrize(
    "command",
    [
        ("torchrun", "train.py"),
        ("/opt/venv/bin/accelerate", "launch", "train.py"),
        ("python", "-m", "torch.distributed.run", "train.py"),
        ("bash", "-c", "torchrun train.py"),
        ("python", "train_jax.py"),
    ],
)
def test_a_command_with_a_launcher_is_not_warned_of(command: tuple[str, ...]) -> None:
    """It forms one training of all VMs."""
    assert list(gang_warnings(spec(command=command), RECIPE)) == []


def test_a_script_without_a_launcher_is_warned_of() -> None:
    """Each VM would train the same, at four times the price."""
    (warning,) = gang_warnings(spec(command=("python", "train.py")), RECIPE)
    assert "does not begin with a launcher" in warning
    assert list(gang_warnings(spec(nodes=1, command=("python", "train.py")), RECIPE)) == []


def test_a_quota_below_what_all_vms_need_is_named() -> None:
    """Nothing is requested of Google then."""
    quotas = {"us-central1": {"PREEMPTIBLE_NVIDIA_T4_GPUS": Quota("PREEMPTIBLE_NVIDIA_T4_GPUS", 3, 0)}}
    assert used_up(RECIPE, "us-central1-a", SPOT, quotas) == ""
    assert "4 VMs need 4 GPUs" in used_up(RECIPE, "us-central1-a", SPOT, quotas, 4)
    ranked = places(RECIPE, {}, [], quotas, "", NOW, 4)
    assert [
        bool(one.passed_over) for one in ranked if one.zone.startswith("us-central1") and one.provisioning_model is SPOT
    ]
    assert all(one.passed_over for one in ranked if one.zone == "us-central1-a" and one.provisioning_model is SPOT)


def test_money_counts_all_vms() -> None:
    """Every part of an hour, and every download."""
    rate = HourlyRate(Money(1), Money(2), Money(3), None)
    assert rate.times(4) == HourlyRate(Money(4), Money(8), Money(12), None)
    inputs = (JobInput("gs://data/v1", "/data", Money.of("0.5")),)
    assert spec(inputs=inputs).download_cost == Money.of(2)


def elastic_problems(**given: Any) -> list[str]:
    return [refusal.message for refusal in gang_problems(spec(nodes=8, least_nodes=2, **given))]


def test_a_range_is_for_what_loads_a_checkpoint_of_another_number_of_vms() -> None:
    """torchrun and JAX are; DeepSpeed's checkpoints would have to be converted first."""
    assert elastic_problems(command=("torchrun", "--nproc_per_node=8", "train.py")) == []
    assert elastic_problems(command=("python", "train_jax.py")) == []
    for command in (("deepspeed", "train.py"), ("accelerate", "launch", "--use_deepspeed", "train.py")):
        (problem,) = elastic_problems(command=command)
        assert "unless they are converted: give one number, such as --nodes 8." in problem
    plan = CheckpointPlan("gs://runs/train", look_for=LookFor(Framework.DEEPSPEED))
    assert len(elastic_problems(checkpoint=plan, command=("torchrun", "train.py"))) == 1


def test_a_range_needs_a_number_that_is_not_set_for_all_rounds() -> None:
    """The user's own words would overrule the place that each round gives."""
    (problem,) = elastic_problems(command=("torchrun", "--nnodes=8", "train.py"), environment={"WORLD_SIZE": "8"})
    assert "(WORLD_SIZE, --nnodes=8)" in problem


def test_the_time_with_the_least_number_is_told() -> None:
    """The quote's figures are of the most VMs."""
    (warning,) = gang_warnings(spec(nodes=8, least_nodes=2, work=timedelta(hours=6)), RECIPE)
    assert "reckoned for 8 VMs. With 2 VMs" in warning
    assert "6 h become up to 1 d" in warning


def test_megatrons_older_checkpoints_are_told() -> None:
    """Any number of VMs loads its format torch_dist, and not its older one."""
    plan = CheckpointPlan("gs://runs/train", look_for=LookFor(Framework.MEGATRON))
    *_, warning = gang_warnings(spec(nodes=8, least_nodes=2, checkpoint=plan), RECIPE)
    assert "torch_dist alone" in warning


def test_close_together_is_not_for_vms_of_a_group() -> None:
    """The policy of a job is named by each VM that is requested by itself."""
    close = spec(placement=Placement.COMPACT)
    g2 = replace(FLEX, machine_type="g2-standard-8", gpu_type="nvidia-l4", attaches_gpus=False)
    assert [one.where for one in gang_recipe_problems(close, g2)] == ["placement"]
    either = replace(g2, buys_cheapest=True)
    assert any("close together" in warning for warning in gang_warnings(close, either))
