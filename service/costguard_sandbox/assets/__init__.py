"""Cloud Asset Inventory of the simulated organisation: searches, and the history of VMs and disks, of cloudasset v1."""

from costguard_sandbox.assets.inventory import AssetIndex
from costguard_sandbox.assets.routes import routes

__all__ = ["AssetIndex", "routes"]
