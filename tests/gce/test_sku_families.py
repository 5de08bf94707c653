"""The words by which Google's catalogue sells shared-core VMs and the GPU families of today.

None of these sentences was made up here: each was seen in the Cloud Billing Catalog by a project that reads it.

- github.com/dstackai/gpuhunt, src/gpuhunt/providers/gcp.py: A3Plus, H100 80GB Plus, RTX 6000 96GB, slices of A4.
- github.com/skypilot-org/skypilot, sky/catalog/data_fetchers/fetch_gcp.py: H100 Mega 80GB, H200 141GB, f1-micro,
  g1-small.
- github.com/SpareCores/sc-crawler, tests of vendors/_gcp.py: G4 (Iowa, Belgium), 1/8 vGPU, A3Ultra, Spot forms, and an
  A4 Spot SKU that is categorised as OnDemand.
- github.com/Cyclenerd/google-cloud-pricing-cost-calculator, build/mapping.csv: Spot forms of f1-micro and g1-small.
"""

from __future__ import annotations

import pytest
from tests.gce.test_prices import NOW, sku

from costguard.gce.sku import prices_of_sku, subject
from costguard.ledger.price_gate import judge
from costguard.model.instance import ProvisioningModel
from costguard.model.price import Unit

STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT


@pytest.mark.parametrize(
    ("description", "usage", "resource", "model"),
    [
        ("Micro Instance with burstable CPU running in Americas", "OnDemand", "f1-micro:whole", STANDARD),
        ("Spot Preemptible Micro Instance with burstable CPU running in EMEA", "Preemptible", "f1-micro:whole", SPOT),
        ("Small Instance with 1 VCPU running in Americas", "OnDemand", "g1-small:whole", STANDARD),
        ("Spot Preemptible Small Instance with 1 VCPU running in Paris", "Preemptible", "g1-small:whole", SPOT),
        ("E2 Custom Instance Core running in Americas", "OnDemand", "e2-custom:core", STANDARD),
        ("A3Plus Instance Core running in Americas", "OnDemand", "a3plus:core", STANDARD),
        ("Spot Preemptible A3Plus Instance Ram running in Tokyo", "Preemptible", "a3plus:ram", SPOT),
        ("A3Ultra Instance Ram running in Americas", "OnDemand", "a3ultra:ram", STANDARD),
        ("G4 Instance Core running in Iowa", "OnDemand", "g4:core", STANDARD),
        ("Nvidia H100 80GB Plus GPU running in Americas", "OnDemand", "gpu:nvidia-h100-mega-80gb", STANDARD),
        ("Nvidia H100 Mega 80GB GPU running in Americas", "OnDemand", "gpu:nvidia-h100-mega-80gb", STANDARD),
        (
            "Nvidia H100 80GB Mega GPU attached to Spot Preemptible VMs running in Tokyo",
            "Preemptible",
            "gpu:nvidia-h100-mega-80gb",
            SPOT,
        ),
        ("H200 141GB GPU running in Netherlands", "OnDemand", "gpu:nvidia-h200-141gb", STANDARD),
        ("RTX 6000 96GB running in Belgium", "OnDemand", "gpu:nvidia-rtx-pro-6000", STANDARD),
        (
            "RTX 6000 96GB attached to Spot Preemptible VMs running in Belgium",
            "Preemptible",
            "gpu:nvidia-rtx-pro-6000",
            SPOT,
        ),
        ("1/8 vGPU no lssd running in Iowa", "OnDemand", "gpu:nvidia-rtx-pro-6000-1/8:whole", STANDARD),
        ("A4 Nvidia B200 (1 gpu slice) running in Americas", "OnDemand", "gpu:nvidia-b200:whole", STANDARD),
    ],
)
def test_families_of_today_are_understood(
    description: str, usage: str, resource: str, model: ProvisioningModel
) -> None:
    """Whole shared-core VMs, A3 Mega and Ultra, G4 and its slices, and A4 have wordings of their own."""
    assert subject(description, usage) == (resource, model)


def test_memory_by_the_gigabyte_is_priced_by_the_gibibyte() -> None:
    """SpareCores/sc-crawler saw C4D's memory at 0.003495578 a GBy.h, which is 0.003753348 a GiB and hour."""
    (price,) = prices_of_sku(sku("C4D Instance Ram running in Americas", 3_495_578, unit="GBy.h"))
    assert price.unit is Unit.GB_HOUR
    assert round(price.nanos_per_second(NOW) * 3600) == 3_753_348
    assert judge(price, None, None, NOW) is None


@pytest.mark.parametrize("usage", ["OnDemand", "Preemptible"])
def test_spot_in_words_is_spot(usage: str) -> None:
    """Some SKUs that say Spot are categorised as on-demand: taken for on-demand, a Spot price would bill too little."""
    said = "Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas"
    assert subject(said, usage) == ("gpu:nvidia-b200:whole", SPOT)


@pytest.mark.parametrize(
    "description",
    [
        "Commitment v1: H200 141GB GPU running in Americas for 3 Years",
        "Commitment v1: A4 Nvidia B200 (1 gpu slice) in Americas for 1 Year",
        "Reserved Nvidia H100 80GB Mega GPU in Virginia",
        "Sole Tenancy Premium for Micro Instance with burstable CPU running in Virginia",
    ],
)
def test_other_terms_of_the_same_families_are_passed_over(description: str) -> None:
    """Commitments, reservations and premiums have prices of their own, which no plain VM pays."""
    assert subject(description, "OnDemand") is None
