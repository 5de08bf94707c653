"""The ways to buy a VM: how they are named, what Google sells in each, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from costguard.model import buying
from costguard.model.buying import DEMAND, FLEX, RESERVED, SPOT, bought, models_of, not_sold, problem
from costguard.model.launch import LONGEST_FLEX_RUN, LONGEST_WAIT, Recipe, gpu_metrics

A100 = Recipe("a2-highgpu-1g", ("us-central1-a",), "global/images/family/f", timedelta(days=30))
FACTS = Path(__file__).resolve().parents[3] / "shared" / "outside" / "capacity" / "facts.json"
WAYS = ["spot", "flex", "demand", "cheapest", "reserved:h100-block", "reserved:projects/lab/reservations/h100-block"]


@pytest.mark.parametrize("way", WAYS)
def test_a_way_is_read_and_named_again(way: str) -> None:
    """The text that a person wrote is shown, whatever was bought before."""
    for before in WAYS:
        assert bought(bought(A100, before), way).buy == way


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("", "is no way to buy a VM: write spot, flex, demand, cheapest or reserved:NAME."),
        ("Spot", "is no way to buy a VM"),
        ("on-demand", "is no way to buy a VM"),
        ("reserved", "is no way to buy a VM"),
        ("reserved:", "names no reservation: write reserved:NAME"),
        ("reserved:Big_One", "names no reservation"),
        ("reserved:projects/lab/zones/a/reservations/x", "names no reservation"),
        ("flex\n", "is no way to buy a VM"),
    ],
)
def test_what_is_no_way_is_explained(way: str, words: str) -> None:
    """The text says what to write instead, and nothing is bought."""
    assert problem(way).startswith(words)
    with pytest.raises(ValueError, match="write"):
        bought(A100, way)


def test_each_way_has_its_models() -> None:
    """The wanted one first; on demand after it where the recipe falls back to it."""
    falls_back = replace(A100, falls_back_to_on_demand=True)
    assert [models_of(bought(A100, way)) for way in WAYS[:5]] == [
        (SPOT,), (FLEX,), (DEMAND,), (SPOT, FLEX, DEMAND), (RESERVED,)
    ]  # fmt: skip
    assert [models_of(bought(falls_back, way)) for way in ("spot", "flex", "demand", "reserved:x")] == [
        (SPOT, DEMAND), (FLEX, DEMAND), (DEMAND,), (RESERVED, DEMAND)
    ]  # fmt: skip


def test_the_cheapest_is_looked_for_among_what_is_sold() -> None:
    """N1 has no flex-start, B200 none on demand: neither is then refused."""
    for machine_type, models in (
        ("n1-standard-8", (SPOT, DEMAND)),
        ("a4-highgpu-8g", (SPOT, FLEX)),
        ("a3-highgpu-1g", (SPOT, FLEX)),
    ):
        recipe = bought(replace(A100, machine_type=machine_type), "cheapest")
        assert models_of(recipe) == models
        assert not_sold(machine_type, models) == ""


@pytest.mark.parametrize(
    "machine_type",
    ["n1-standard-8", "n2-standard-4", "c3-highcpu-88", "e2-medium", "ct5lp-hightpu-4t", "h4d-standard-192"],
)
def test_flex_start_of_other_series_is_refused(machine_type: str) -> None:
    """Google's page names A2, A3, A4, G2, G4 and three TPUs; the sentence names them, and what to do."""
    said = not_sold(machine_type, [FLEX])
    assert said.startswith(f"Google sells no flex-start VMs of {machine_type}: choose a type of the series A2, A3")
    assert said.endswith("or buy it as spot or demand.")


def test_a4x_can_be_bought_by_reservation() -> None:
    """Google sells it in no other way."""
    assert not_sold("a4x-highgpu-4g", [RESERVED]) == ""
    assert "buy it as reserved:NAME" in not_sold("a4x-highgpu-4g", [SPOT])


@pytest.mark.parametrize(
    ("seconds", "is_fine"), [(0, True), (1, False), (89, False), (90, True), (7200, True), (7201, False)]
)
def test_a_request_waits_as_long_as_google_allows(seconds: int, is_fine: bool) -> None:
    """A request waits for 90 s to 2 h, or not at all, which is written as 0."""
    said = buying.wait_problem(timedelta(seconds=seconds))
    assert (said == "") is is_fine
    assert is_fine or said.startswith("A flex-start request waits for 1 min 30 s to 2 h")


def test_a_flex_start_vm_runs_for_seven_days_at_most() -> None:
    """The recipe's own limit counts where it is shorter."""
    assert buying.longest_run(A100, FLEX) == LONGEST_FLEX_RUN == timedelta(days=7)
    assert buying.longest_run(A100, SPOT) == A100.max_run
    assert buying.longest_run(replace(A100, max_run=timedelta(hours=3)), FLEX) == timedelta(hours=3)


def test_flex_start_uses_the_quota_of_preemptible_vms() -> None:
    """The common quota counts where none of that was granted."""
    assert gpu_metrics("nvidia-tesla-a100", FLEX) == gpu_metrics("nvidia-tesla-a100", SPOT)
    assert gpu_metrics("nvidia-tesla-a100", RESERVED) == gpu_metrics("nvidia-tesla-a100", DEMAND)


def test_what_google_accepted_is_sold_here() -> None:
    """An acceptance test of the Terraform provider, which Google runs, makes this VM by flex-start."""
    if not FACTS.exists():
        pytest.skip(f"{FACTS.name} is not here: it is no part of the product")
    facts = {fact["id"]: fact["data"] for fact in json.loads(FACTS.read_text())}
    machine_type = facts["flex-request"]["machineType"].rpartition("/")[2]
    assert not_sold(machine_type, [FLEX]) == ""
    wait = timedelta(seconds=int(facts["flex-queue"]["params"]["requestValidForDuration"]["seconds"]))
    assert (buying.wait_problem(wait), wait) == ("", LONGEST_WAIT)
    assert (
        f"to {LONGEST_FLEX_RUN.total_seconds():.0f} inclusive"
        in facts["resize-request"]["requestedRunDuration.seconds"]
    )
