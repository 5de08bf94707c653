"""People read the generation and the chips of a VM with TPUs, and never GPUs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from costguard.bill.stories import used_text
from costguard.cli.ledger import gpu as in_a_table
from costguard.ledger.billed.machine_parts import accelerator_kind
from costguard.messages.cards import what
from costguard.model.instance import ProvisioningModel, Shape, gpu_words
from costguard.pages.show import gpu as on_a_page
from costguard.spend.focus import _hours_of

FOUR = Shape("ct6e-standard-4t", 180, 720 * 1024, "v6e", 4)


def test_a_tpu_is_shown_by_its_generation_and_chips() -> None:
    """Slack, pages and tables have each its own form."""
    answer: dict[str, Any] = {"gpu_type": "v6e", "gpu_count": 4, "machine_type": "ct6e-standard-4t"}
    assert what(FOUR, ProvisioningModel.FLEX_START) == "ct6e-standard-4t, 4 x v6e, flex-start"
    assert on_a_page(FOUR) == "4 × v6e"
    assert in_a_table({**answer, "provisioning_model": "spot"}) == "v6e x 4 spot"
    assert gpu_words("tpu7x") == "tpu7x"


def test_a_gpu_is_shown_as_before() -> None:
    """The names of GPUs keep their capitals."""
    shape = Shape("a3-highgpu-8g", 208, 1, "nvidia-h100-80gb", 8)
    assert what(shape, ProvisioningModel.STANDARD) == "a3-highgpu-8g, 8 x H100 80GB"


@pytest.mark.parametrize(
    ("resource", "kind", "hours", "used"),
    [
        ("gpu:v6e:whole", "TPU", "TPU-Hours", "7,200 TPU seconds"),
        ("gpu:nvidia-b200:whole", "GPU", "GPU-Hours", "7,200 GPU seconds"),
        ("gpu:nvidia-tesla-t4", "GPU", "GPU-Hours", "7,200 GPU seconds"),
        ("f1-micro:whole", None, "Instance-Hours", "7,200 seconds"),
    ],
)
def test_units_name_the_accelerator(resource: str, kind: str | None, hours: str, used: str) -> None:
    """The FOCUS export counts TPU-Hours, and a difference with Google's bill TPU seconds."""
    assert accelerator_kind(resource) == kind
    assert _hours_of(resource) == hours
    assert used_text(Fraction(7200), resource) == used
