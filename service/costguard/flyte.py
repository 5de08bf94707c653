"""Jobs as Flyte's tasks under the name that they had before: `costguard_client.flyte`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costguard_client.flyte import CostguardJob
from costguard_client.flyte import __getattr__ as __getattr__  # which loads flytekit only where its task is asked for

if TYPE_CHECKING:
    from costguard_client.flyte import CostguardTask

__all__ = ["CostguardJob", "CostguardTask"]
