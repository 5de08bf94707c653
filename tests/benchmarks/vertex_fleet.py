"""The ledger of the busy year with resources of Vertex AI and Colab Enterprise, or as many plain VMs, in addition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

from tests.benchmarks import busy_year, year
from tests.benchmarks.year import NOW
from tests.within import keep_rates

from costguard.db.bulk import insert_rows
from costguard.db.tables import instances, lifetimes
from costguard.db.transaction import Database
from costguard.gce.machine_types import by_rule
from costguard.gce.prices import snapshot_prices
from costguard.gce.vertex.machines import shape_of
from costguard.ledger import price_refresh
from costguard.ledger.billed.machine_parts import parts_of_shape
from costguard.ledger.charged import charging
from costguard.ledger.charged.label_roll_up import roll_up
from costguard.ledger.labels.label_history import keeper_columns
from costguard.model.instance import InstanceKind, ProvisioningModel, Shape, vertex_id
from costguard.model.keeper import KIND_LABEL, Keeper, KeeperKind
from costguard.model.managed.machines import UNKNOWN_TYPE, Seller
from costguard.model.price import EVERYWHERE, Price, PriceKey, Unit, costs_the_same_everywhere

RESOURCES = 20_000
RULES = replace(busy_year.RULES, spend_labels=(KIND_LABEL,))
_REGIONS = ("us-central1", "us-east1", "europe-west4", "asia-southeast1")
_LONGEST_S = 3 * 24 * 3600  # the oldest of them runs for some longer
_STANDARD, _SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
_H100 = {"machineType": "a3-highgpu-8g", "acceleratorType": "NVIDIA_H100_80GB", "acceleratorCount": 8}
_L4 = {"machineType": "g2-standard-12", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 1}
_T4 = {"machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}
_CPU = {"machineType": "n1-standard-8"}
_SSD = {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100}
_UNSOLD = "hyperdisk-extreme"  # a boot disk that no SKU of Vertex AI prices


@dataclass(frozen=True, slots=True)
class Group:
    """Resources of one kind with the same machines."""

    kind: InstanceKind
    shape: Shape
    model: ProvisioningModel = _STANDARD


def _groups() -> tuple[Group, ...]:
    """Twenty groups of the same size: of three nothing has a price, and of one the boot disks have none."""
    job, pool, model = InstanceKind.CUSTOM_JOB, InstanceKind.PERSISTENT_RESOURCE, InstanceKind.DEPLOYED_MODEL
    training, prediction, colab = Seller.TRAINING, Seller.PREDICTION, Seller.COLAB
    unknown = shape_of(prediction, {"machineType": UNKNOWN_TYPE}, 1, _STANDARD)
    unsold = shape_of(training, _T4, 1, _STANDARD, {"bootDiskType": _UNSOLD, "bootDiskSizeGb": 100})
    return (
        *(Group(job, shape_of(training, _H100, count, _STANDARD, _SSD)) for count in (1, 2, 4)),
        *(Group(job, shape_of(training, _H100, count, _SPOT, _SSD), _SPOT) for count in (1, 2)),
        *(Group(job, shape_of(training, _T4, count, _STANDARD, _SSD)) for count in (1, 3)),
        *(Group(pool, shape_of(training, _L4, count, _STANDARD, _SSD)) for count in (1, 2)),
        *(Group(model, shape_of(prediction, _L4, count, _STANDARD)) for count in (1, 2)),
        *(Group(model, shape_of(prediction, _CPU, count, _STANDARD)) for count in (1, 5)),
        Group(InstanceKind.DEPLOYMENT_POOL, shape_of(prediction, _T4, 2, _STANDARD)),
        *(Group(InstanceKind.COLAB_RUNTIME, shape_of(colab, spec, 1, _STANDARD)) for spec in (_T4, _CPU)),
        Group(job, unsold),
        *(Group(model, unknown) for _ in range(3)),
    )


def _plain() -> tuple[Group, ...]:
    """Six groups of VMs that all have a price."""
    types = ("n1-standard-8", "a2-highgpu-1g", "a2-highgpu-8g", "n1-standard-4", "g2-standard-12", "a3-highgpu-8g")
    shapes = [Shape(name, *made) for name in types if (made := by_rule(name)) is not None]
    return tuple(Group(InstanceKind.INSTANCE, shape) for shape in shapes)


def fill(database: Database, lifetimes_a_year: int, count: int = RESOURCES, *, is_vertex: bool = True) -> None:
    """Fills an empty database with the busy year's 10,000 running VMs and `count` resources, or VMs, that run.

    Prices come first, so that each charge is made once.
    """
    seed_prices(database, is_vertex=is_vertex)
    busy_year.fill(database, lifetimes=lifetimes_a_year)
    vms = year.VMS + busy_year.VMS
    run(database, range(count), (vms, lifetimes_a_year + vms), is_vertex=is_vertex)
    charging.charge_due(database, NOW)
    with database.write() as connection:
        keep_rates(connection, NOW)
    while roll_up(database, RULES.spend_labels, NOW):
        pass
    if database.dialect == "postgresql":
        with database.write() as connection:
            connection.exec_driver_sql("ANALYZE")


def seed_prices(database: Database, *, is_vertex: bool = True) -> None:
    """Stores the shipped prices, and with them one of each part of the groups that has a price."""
    groups = _groups() if is_vertex else _plain()
    price_refresh.seed_snapshot(database, [*snapshot_prices(), *_prices(groups)], NOW)


def run(database: Database, numbers: range, after: tuple[int, int] = (0, 0), *, is_vertex: bool = True) -> None:
    """Adds resources, or VMs, of these numbers with a run each that is not charged yet.

    Their rows follow upon those of `after`: an instance and a lifetime.
    """
    groups = _groups() if is_vertex else _plain()
    of_each = [(number, groups[number % len(groups)]) for number in numbers]
    instance, lifetime = after[0] + 1, after[1] + 1
    with database.write() as connection:
        insert_rows(connection, instances, [_instance(instance + number, number, group) for number, group in of_each])
        rows = [_lifetime(lifetime + number, instance + number, number, group) for number, group in of_each]
        insert_rows(connection, lifetimes, rows)


def _prices(groups: tuple[Group, ...]) -> Iterator[Price]:
    """Yields a price of each part that the snapshot has none of, but for what stays without."""
    priced = {price.key for price in snapshot_prices()}
    for group, region in product(groups, _REGIONS):
        for part, model in product(parts_of_shape(group.shape), {_STANDARD, group.model}):
            key = PriceKey(part.resource, EVERYWHERE if costs_the_same_everywhere(part.resource) else region, model)
            if key not in priced and _UNSOLD not in part.resource:
                priced.add(key)
                unit = Unit.GIB_MONTH if part.resource.startswith("disk:") else Unit.HOUR
                yield Price(key, unit, 30_000_000 + 7 * len(priced), NOW - timedelta(days=500), "catalog")


def _whose(number: int) -> dict[str, str]:
    preset, owner = f"preset-{number % year.PRESETS}", f"owner-{number * 7 % year.OWNERS}@example.com"
    return {"project": "acme", "preset": preset, "owner": owner, "job": ""}


def _shape(group: Group) -> dict[str, Any]:
    names = ("machine_type", "vcpus", "memory_mib", "gpu_type", "gpu_count", "local_ssd_gib")
    return {name: getattr(group.shape, name) for name in names} | {"provisioning_model": group.model.value}


def _place(number: int, group: Group) -> tuple[str, str]:
    """The zone of a VM, or the region of a resource, and its id."""
    region = _REGIONS[number // 20 % len(_REGIONS)]
    if group.kind is InstanceKind.INSTANCE:
        return f"{region}-a", str(9_000_000 + number)
    return region, vertex_id(group.kind, region, str(9_000_000 + number))


def _instance(row: int, number: int, group: Group) -> dict[str, Any]:
    zone, gce_id = _place(number, group)
    keeper = Keeper(KeeperKind.NOBODY)
    if group.kind.is_of_vertex:
        keeper = Keeper(KeeperKind.VERTEX, gce_id, zone, product=group.kind.in_words, evidence=("costguard-vertex",))
    return {
        "id": row,
        "gce_id": gce_id,
        "name": f"resource-{number}",
        "zone": zone,
        "status": "running",
        "created_at": _began(number),
        "last_started_at": _began(number),
        "labels": {"team": "vision", "owner": "ada", "experiment": "resnet-50-large-batch", "cost-center": "c-1234"},
        **keeper_columns(keeper),
        "owner_source": "label",
        "created_by": "",
        "fingerprint": "",
        "first_seen_at": _began(number),
        **_whose(number),
        **_shape(group),
    }


def _lifetime(row: int, instance_id: int, number: int, group: Group) -> dict[str, Any]:
    zone, _ = _place(number, group)
    began = {"id": row, "instance_id": instance_id, "zone": zone, "started_at": _began(number)}
    return began | _whose(number) | _shape(group)


def _began(number: int) -> datetime:
    """A fifth of them began today, each at another moment."""
    return NOW - timedelta(seconds=number // 20 % 5 * _LONGEST_S // 5 + number % 39_000)
