"""Costguard's jobs as tasks of Flyte workflows: for flytekit 1.16, and in `costguard_client.flyte.sdk` for Flyte 2.

    from costguard_client.flyte import CostguardJob, CostguardTask

Importing this needs neither; `CostguardTask` loads flytekit, which `costguard[flyte]` installs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from costguard_client.flyte.job import CostguardJob as CostguardJob

if TYPE_CHECKING:
    from costguard_client.flyte.kit import CostguardTask as CostguardTask

__all__ = ["CostguardJob", "CostguardTask"]


def __getattr__(name: str) -> Any:
    if name != "CostguardTask":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from costguard_client.flyte.kit import CostguardTask

    return CostguardTask
