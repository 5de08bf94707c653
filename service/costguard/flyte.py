"""Jobs as Flyte's tasks under the name that they had before: `costguard_client.flyte`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from costguard_client.flyte import CostguardJob

if TYPE_CHECKING:
    from costguard_client.flyte import CostguardTask

__all__ = ["CostguardJob", "CostguardTask"]


def __getattr__(name: str) -> Any:
    """Load flytekit only where its task is asked for."""
    import costguard_client.flyte

    return getattr(costguard_client.flyte, name)
