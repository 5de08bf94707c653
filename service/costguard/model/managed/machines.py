"""The machines of Google's managed services, as the ledger writes them in the place of a machine type.

Such machines stand in projects of Google's. What they cost depends on the service that sells them, on how many there
are, and on their boot disks, which `Shape` has no field for: `4 x a3-highgpu-8g (Vertex training, 100 GiB pd-ssd)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache


class Seller(StrEnum):
    """A service that sells machines under its own SKUs."""

    TRAINING = "Vertex training"
    PREDICTION = "Vertex prediction"
    COLAB = "Colab Enterprise"

    @property
    def mark(self) -> str:
        """Returns the word in the names of its billed resources: `vertex-training`."""
        return self.value.lower().replace(" ", "-")


UNKNOWN_TYPE = "unknown"
"""Stands for the machine type where Google chooses the machines and does not say which."""

_WRITTEN = re.compile(
    r"(?:(?P<count>[1-9]\d*) x )?(?P<type>\S+) \((?P<seller>"
    + "|".join(Seller)
    + r")(?P<fee> with fee)?(?:, (?P<gib>\d+) GiB (?P<disk>[a-z0-9-]+))?\)"
)


@dataclass(frozen=True, slots=True)
class ManagedMachines:
    """Holds how many alike machines of a service are bought and given back together.

    With `pays_fee` they are billed by Compute Engine's SKUs, and the service adds a management fee; else by SKUs of the
    service. `disk_gib` is the boot disk of each, in GiB; 0: it is not billed, or not known.
    """

    seller: Seller
    machine_type: str
    count: int = 1
    pays_fee: bool = False
    disk_gib: int = 0
    disk_type: str = ""

    def __str__(self) -> str:
        times = f"{self.count} x " if self.count != 1 else ""
        disk = f", {self.disk_gib} GiB {self.disk_type}" if self.disk_gib else ""
        return f"{times}{self.machine_type} ({self.seller}{' with fee' if self.pays_fee else ''}{disk})"

    @classmethod
    @lru_cache(maxsize=4096)
    def read(cls, machine_type: str) -> ManagedMachines | None:
        """Reads what `str` gave; None for a machine type of Compute Engine."""
        match = _WRITTEN.fullmatch(machine_type)
        if match is None:
            return None
        return cls(
            Seller(match["seller"]),
            match["type"],
            int(match["count"] or 1),
            match["fee"] is not None,
            int(match["gib"] or 0),
            match["disk"] or "",
        )
