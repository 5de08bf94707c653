"""What the engine needs from the outside, as protocols that adapters satisfy by shape."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from costguard.model.instance import InstanceKey
from costguard.model.observation import Observation, Presence
from costguard.model.price import Price
from costguard.model.utilisation import Usage

__all__ = ["Clock", "Cloud", "Presence", "PriceSource", "UsageSource"]


class Cloud(Protocol):
    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        """Look at one project. Never raises a CloudError: what could not be read is in `unread`.

        Operations inserted after `operations_since` are read; None reads all that Google still keeps.
        """
        ...

    def presence(self, key: InstanceKey, zone: str, name: str) -> Presence:
        """Ask for this one VM by its address and compare ids."""
        ...


class UsageSource(Protocol):
    def usage(self, project: str, since: datetime, until: datetime) -> Usage:
        """What was measured of a project's VMs. Never raises a CloudError: what could not be read is in `unread`."""
        ...


class PriceSource(Protocol):
    def fetch(self) -> Sequence[Price]:
        """All prices that the source knows and Costguard uses. Raises PriceSourceError."""
        ...


class Clock(Protocol):
    def now(self) -> datetime:
        """The present moment, aware, in UTC."""
        ...
