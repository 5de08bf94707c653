"""Machine types are launched only in ways in which Google sells them.

Google's pages, looked up in 2026: cloud.google.com/ai-hypercomputer/docs/consumption-models (Spot: "Any GPU machine
except A4X"; reservations: A4X, A4, A3 Ultra), /compute/docs/gpus ("When provisioning a3-highgpu-1g, a3-highgpu-2g, or
a3-highgpu-4g machine types, you must create instances by using Spot VMs or Flex-start VMs"), and the table "Consumption
option availability by machine type" in /compute/docs/accelerator-optimized-machines, by which dstackai/gpuhunt leaves
on-demand offers of exactly these types out.
"""

from __future__ import annotations

import pytest

from costguard.model.buying import not_sold
from costguard.model.instance import ProvisioningModel

STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT


@pytest.mark.parametrize("model", [STANDARD, SPOT])
@pytest.mark.parametrize("machine_type", ["a4x-highgpu-4g", "a4x-maxgpu-4g-metal", "a4x-highgpu-4g-nolssd"])
def test_a4x_is_sold_by_reservation_alone(machine_type: str, model: ProvisioningModel) -> None:
    """Neither Spot nor on demand: the sentence says what to do instead."""
    said = not_sold(machine_type, [model])
    assert said.startswith(f"Google sells {machine_type} by reservation only")
    assert "Spot" in said
    assert said.endswith(".")


@pytest.mark.parametrize(
    ("machine_type", "sold"),
    [
        ("a4-highgpu-8g", "as Spot, by flex-start or by reservation"),
        ("a3-ultragpu-8g", "as Spot, by flex-start or by reservation"),
        ("a3-highgpu-1g", "as Spot or by flex-start"),
        ("a3-highgpu-2g", "as Spot or by flex-start"),
        ("a3-highgpu-4g", "as Spot or by flex-start"),
    ],
)
def test_some_are_never_sold_on_demand(machine_type: str, sold: str) -> None:
    """Such types are launched as Spot; on demand, also as what Spot falls back to, they never would be."""
    assert not_sold(machine_type, [SPOT]) == ""
    for models in ([STANDARD], [SPOT, STANDARD]):
        assert not_sold(machine_type, models).startswith(f"Google sells {machine_type} {sold}, not on demand")
    assert "spot or flex" in not_sold(machine_type, [STANDARD])
    assert "on_demand_fallback" in not_sold(machine_type, [SPOT, STANDARD])


BOTH_WAYS = """
n1-standard-8 g2-standard-8 g4-standard-48 a2-megagpu-16g a2-ultragpu-1g a3-highgpu-8g a3-megagpu-8g a3-edgegpu-8g
"""


@pytest.mark.parametrize("machine_type", BOTH_WAYS.split())
def test_the_others_are_sold_both_ways(machine_type: str) -> None:
    """Nothing is refused that Google sells."""
    assert not_sold(machine_type, [SPOT, STANDARD]) == ""
