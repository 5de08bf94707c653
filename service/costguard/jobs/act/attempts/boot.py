"""The metadata of a job's VM: boot script, agent, settings and token."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from costguard_vm.bundle import bundle

MOST_VALUE_BYTES = 256 << 10  # Google's limits
MOST_BYTES = 512 << 10
SCRIPT = Path(__file__).with_name("boot_script.sh")


def metadata_items(
    attempt: Mapping[str, object], token: str, with_drivers: bool, agent: bytes | None = None
) -> dict[str, str]:
    """The items of an insert call. `attempt` is described in the agent's PROTOCOL.md; it must hold no secret's value.
    `agent` is the file that runs there, by default the one that `bundle` makes.

    `with_drivers` asks a Deep Learning image to install the GPU's driver, which takes minutes; the agent waits for it.
    """
    agent = bundle() if agent is None else agent
    items = {
        "startup-script": SCRIPT.read_text("utf-8"),
        "costguard-agent": base64.encodebytes(agent).decode("ascii"),
        "costguard-agent-sha256": hashlib.sha256(agent).hexdigest(),
        "costguard-attempt": json.dumps(attempt, sort_keys=True),
    }
    if token:  # the VMs of a group share their metadata: see agent/claim.py
        items["costguard-token"] = token
    if with_drivers:
        items["install-nvidia-driver"] = "True"
    sizes = {name: len(value.encode()) for name, value in items.items()}
    largest = max(sizes, key=lambda name: sizes[name])
    if sizes[largest] > MOST_VALUE_BYTES or sum(sizes.values()) + sum(map(len, sizes)) > MOST_BYTES:
        raise ValueError(
            f"The VM's metadata would be too large: {largest} has {sizes[largest]} bytes."
            " Google allows 256 KiB for a value and 512 KiB in all; move files into the image or a bucket."
        )
    return items
