"""The meaning of a SKU of Vertex AI: which machine's part of which service it prices, or which fee.

Words of SKUs as bills and the catalogue have them (August 2025 to October 2026): "Vertex AI: Training/Pipelines on
NVIDIA H100 80GB in Iowa" (3F95-001E-B747), "... on A3 Instance Core in Iowa" (2E83-99F1-391A), "... on N1 Predefined
Instance Ram running in ...", "... management fee on A3 Instance RAM in Iowa" (D30D-69C9-F057), "... on SSD backed PD
Capacity" (A005-98FE-36CC), "Vertex AI: Online/Batch Prediction Nvidia H100 80gb GPU running in Iowa" (AE9C-DB60-DF46),
"... A2 Instance Core running in Americas", "... A3 Predefined Instance Ram running in Iowa" (2424-9F04-82A8), and
"Vertex Colab N2 CPU usage" (7362-581B-29B4).
"""

from __future__ import annotations

import re
from typing import Final

from costguard.model.managed.machines import Seller
from costguard.model.price import FEE

_SOLD: Final = re.compile(
    r"vertex ai: (?P<service>training/pipelines|online/batch prediction)(?P<fee> management fee)?(?: on)? "
    r"(?P<what>.+?)(?: (?:running )?in (?P<place>.+))?"
)
_SERVICES: Final = {"training/pipelines": Seller.TRAINING, "online/batch prediction": Seller.PREDICTION}
_COLAB: Final = re.compile(r"vertex colab (?P<what>.+?)(?: usage)?(?: (?:running )?in (?P<place>.+))?")
_HOST: Final = re.compile(
    r"(?P<family>a3plus|a3ultra|[a-z]\d+[a-z]?)(?: predefined| amd| arm)?(?P<custom> custom)?(?: instance)? "
    r"(?P<part>core|cpu|ram)"
)
_GPU: Final = re.compile(
    r"(?:nvidia )?(?:tesla )?(?P<name>g?[a-z]\d+(?: (?:mega|plus))?(?: \d+gb)?(?: mega)?)(?: gpu)?"
)
_DISK: Final = re.compile(r"(?P<name>storage pd|ssd backed pd|balanced pd|hyperdisk [a-z]+) capacity")
_DISKS: Final = {"storage pd": "pd-standard", "ssd backed pd": "pd-ssd", "balanced pd": "pd-balanced"}
_GPUS: Final = {
    "k80": "nvidia-tesla-k80",
    "p100": "nvidia-tesla-p100",
    "p4": "nvidia-tesla-p4",
    "v100": "nvidia-tesla-v100",
    "t4": "nvidia-tesla-t4",
    "l4": "nvidia-l4",
    "a100": "nvidia-tesla-a100",
    "a100 40gb": "nvidia-tesla-a100",
    "a100 80gb": "nvidia-a100-80gb",
    "h100 80gb": "nvidia-h100-80gb",
    "h100 mega 80gb": "nvidia-h100-mega-80gb",
    "h100 80gb mega": "nvidia-h100-mega-80gb",
    "h100 plus 80gb": "nvidia-h100-mega-80gb",
    "h200 141gb": "nvidia-h200-141gb",
    "h200": "nvidia-h200-141gb",
    "b200": "nvidia-b200",
    "gb200": "nvidia-gb200",
}


def vertex_resource(words: str) -> str | None:
    """Returns the resource that a SKU's words, in small letters, are about; None of what Costguard does not price.

    Spot, flex-start and reservations have no SKUs here: Compute Engine's and a fee.
    """
    if match := _SOLD.fullmatch(words):
        return _resource(match["what"], _SERVICES[match["service"]], is_fee=match["fee"] is not None)
    if match := _COLAB.fullmatch(words):
        return _resource(match["what"], Seller.COLAB, is_fee=False)
    return None


def _resource(what: str, seller: Seller, *, is_fee: bool) -> str | None:
    fee = FEE if is_fee else ""
    if host := _HOST.fullmatch(what):
        part = "ram" if host["part"] == "ram" else "core"
        return f"{seller.mark}-{host['family']}{'-custom' if host['custom'] else ''}:{part}{fee}"
    if disk := _DISK.fullmatch(what):
        return f"disk:{seller.mark}-{_DISKS.get(disk['name'], disk['name'].replace(' ', '-'))}"
    gpu = _GPU.fullmatch(what)
    name = _GPUS.get(gpu["name"]) if gpu is not None else None
    return None if name is None else f"gpu:{name}:{seller.mark}{fee}"
