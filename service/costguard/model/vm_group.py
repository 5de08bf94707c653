"""VMs that are requested all at once: a managed instance group, and its resize requests.

Google: "About resize requests in a MIG" (docs.cloud.google.com/compute/docs/instance-groups/about-resize-requests-mig).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class ResizeState(StrEnum):
    """The state of a resize request. One that is ACCEPTED waits, costs nothing, and alone can be cancelled."""

    ACCEPTED = "ACCEPTED"
    CREATING = "CREATING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    UNKNOWN = "STATE_UNSPECIFIED"  # none of these: nothing follows from it

    @property
    def is_final(self) -> bool:
        return self in (ResizeState.SUCCEEDED, ResizeState.FAILED, ResizeState.CANCELLED)


@dataclass(frozen=True, slots=True)
class GroupAddress:
    """A zonal group of ours, whose template has its name."""

    project: str
    zone: str
    name: str


@dataclass(frozen=True, slots=True)
class ResizeRequest:
    """VMs of these names, all at once or none."""

    name: str
    vms: tuple[str, ...]
    max_run: timedelta


@dataclass(frozen=True, slots=True)
class ResizeAnswer:
    """A resize request as Google shows it. The error is that of a FAILED one; "" where it gives none."""

    state: ResizeState
    error_code: str = ""
    error_message: str = ""


@dataclass(frozen=True, slots=True)
class GroupParts:
    """The parts of a group that are there."""

    has_template: bool
    has_group: bool
