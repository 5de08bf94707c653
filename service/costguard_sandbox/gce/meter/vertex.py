"""The bills of what Vertex AI and Colab Enterprise run: by the second, exact in nano-dollars, as recorded ones show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from costguard_sandbox.gce.catalogue.machine_types import MACHINE_TYPES
from costguard_sandbox.gce.catalogue.prices import PriceList
from costguard_sandbox.gce.catalogue.vertex_prices import VertexPrices
from costguard_sandbox.gce.meter.bill import PricedSums
from costguard_sandbox.gce.meter.usage import Span
from costguard_sandbox.gce.vertex.resources import COLAB, TRAINING, Machines, ManagedThing

_FAMILIES = {"a3-megagpu": "a3plus", "a3-ultragpu": "a3ultra"}


@dataclass(slots=True, kw_only=True)
class ThingBill(PricedSums):
    """The bill of one thing."""

    thing: ManagedThing

    def shown(self) -> dict[str, Any]:
        thing = self.thing
        who = {"project": thing.project, "region": thing.region, "path": thing.path, "part": thing.part}
        return {**who, **PricedSums.shown(self)}


def thing_bills(things: Iterable[ManagedThing], prices: PriceList, until: datetime) -> list[ThingBill]:
    made = []
    for thing in things:
        bill = ThingBill(thing=thing)
        for machines in thing.machines:
            for run in thing.runs:
                ended = until if run.ended is None else min(run.ended, until)
                for resource, quantity, own in _parts(machines):
                    spot = machines.way == "SPOT" and not own
                    span = Span(resource, quantity, spot, run.began, ended)
                    bill.add(span, thing.region, VertexPrices(prices) if own else prices)
        for stay in thing.there:
            gone = until if stay.ended is None else min(stay.ended, until)
            for gib, kind in thing.disks:
                span = Span(f"{COLAB}|disk:{kind}", Fraction(gib), False, stay.began, gone)
                bill.add(span, thing.region, VertexPrices(prices))
        made.append(bill)
    return made


def _parts(machines: Machines) -> Iterator[tuple[str, Fraction, bool]]:
    """(resource, quantity, whether the service's own SKUs price it), as two recorded bills of August 2025 show.

    On demand: SKU 3F95-001E-B747 for each GPU, 2E83-99F1-391A a vCPU, B045-9255-8314 a GiB, A005-98FE-36CC a GiB of
    boot disks, and none for local SSD. By flex-start: Compute Engine's 341A-49A5-0C07, 9A32-36B2-7FBC, ED19-A584-4A84
    and 2303-1D6A-9C08 of local SSD, and the fees 5853-505F-A5C4, 9AC1-7D9B-C47E and D30D-69C9-F057.
    """
    machine = MACHINE_TYPES[machines.spec["machineType"]]
    count = machines.number
    gpus = [(kind, number * count) for kind, number in machine.accelerators]
    if not gpus and machines.spec.get("acceleratorCount"):
        kind = machines.spec["acceleratorType"].lower().replace("_", "-")
        gpus = [(kind, int(machines.spec["acceleratorCount"]) * count)]
    family = _FAMILIES.get(machine.name.rpartition("-")[0], machine.name.partition("-")[0])
    parts = [(f"gpu:{kind}", Fraction(number)) for kind, number in gpus]
    parts += [
        (f"{family}:core", Fraction(machine.vcpus * count)),
        (f"{family}:ram", Fraction(machine.memory_mb * count, 1024)),
    ]
    if machines.way:
        sold = {"FLEX_START": "flex_start:"}.get(machines.way, "")
        for resource, amount in parts:
            yield f"{sold}{resource}", amount, False
            yield f"{machines.seller}-fee|{resource}", amount, True
        if machine.local_ssd_gib:
            yield f"{sold}local-ssd", Fraction(machine.local_ssd_gib * count), False
    else:
        for resource, amount in parts:
            yield f"{machines.seller}|{resource}", amount, True
    if machines.seller == TRAINING and machines.disk_gib:
        yield f"{machines.seller}|disk:{machines.disk_type}", Fraction(machines.disk_gib * count), True
