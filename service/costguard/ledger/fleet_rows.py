"""Reads the fleet: which VMs exist, what is known of each, and the sums of its charges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    type_coerce,
)

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import remembers
from costguard.db.tables import UNPRICED_RANK, instances, lifetimes, storage_spans
from costguard.db.types import storable
from costguard.errors import Conflict
from costguard.keepers.reading import recorded_keeper
from costguard.ledger import projects
from costguard.ledger.labels.label_history import label_value
from costguard.ledger.projects import ProjectLook
from costguard.ledger.rows import shape_of
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape, Status, is_id
from costguard.model.keeper import KEEPER_LABEL, Keeper, KeeperKind, label_of_cluster
from costguard.model.money import Money
from costguard.model.observation import Unread, scopes_of

BEYOND = 2**62  # above every real rate and time, as a rank
Place: TypeAlias = tuple[int, str, int]  # of an instance in an order: its rank, and among equals its name and id


class Sort(StrEnum):
    RATE = "rate"  # the most expensive per hour first; what cannot be priced before all of them
    AGE = "age"  # the longest running first
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a listing. Each that is given must hold; an empty tuple and None filter nothing."""

    projects: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    name: str | None = None
    name_holds: str | None = None  # a part of it
    gce_id: str | None = None
    gpu: str | None = None  # an accelerator type, "any" or "none"
    spot: bool | None = None
    keepers: tuple[str, ...] = ()
    cluster: str | None = None  # `train`, or with its pool `train/t4`


@dataclass(frozen=True, slots=True)
class Burning:
    """Present instances of a kind, `count` of them, with their hourly cost but for those that cannot be priced
    whole.
    """

    project: str
    preset: str
    status: Status
    provisioning_model: ProvisioningModel
    count: int
    running: int
    rate: Money
    unpriced: int


@dataclass(frozen=True, slots=True)
class PresentInstance:
    """The little that ranking ten thousand VMs needs. `lifetime_*` describe the open lifetime, if there is one."""

    id: int
    project: str
    preset: str
    status: Status
    name: str
    zone: str
    shape: Shape
    provisioning_model: ProvisioningModel
    started_at: datetime | None
    unpriced: str


@dataclass(frozen=True, slots=True)
class FleetInstance:
    """All that the ledger knows of one VM, money apart."""

    id: int
    key: InstanceKey
    name: str
    zone: str
    status: Status
    shape: Shape
    provisioning_model: ProvisioningModel
    labels: Mapping[str, str]
    kept: Keeper  # as recorded; as read now, of a VM that no look has shown since keepers are recorded
    preset: str
    owner: str
    owner_source: str
    job: str
    created_by: str
    created_at: datetime
    first_seen_at: datetime
    last_seen_at: datetime | None  # None: its project was never read whole
    gone_at: datetime | None
    terminates_at: datetime | None  # when Google's own run-time limit fires
    unread: str  # why the last look could not read the VM's zone; "" when it could

    def never_stopped(self, through: Collection[KeeperKind]) -> str:
        """Explains why no rule and no request stops it, and what to do instead; "" where nothing of the kind holds.

        `through`: the keepers whose own stop the settings allow.
        """
        keeper = self.keeper
        return "" if keeper is None or keeper.is_stopped_by(through) else keeper.refusal(self.name, self.key.project)

    def own_stop(self, through: Collection[KeeperKind]) -> str:
        """Describes the effect of its keeper's own stop; "" where no such stop is used."""
        return self.kept.own_stop(self.name) if self.kept.is_stopped_by(through) else ""

    @property
    def keeper(self) -> Keeper | None:
        """The keeper that no stop goes behind the back of; None where nothing keeps it."""
        return self.kept if self.kept.kind.keeps else None


@remembers(instances)
def ranked(connection: Connection, filters: Filters, sort: Sort, after: Place | None, limit: int) -> list[Place]:
    """Ranks present instances by their stored rates; `after` goes on after a page."""
    columns = instances.c
    ranks: dict[Sort, ColumnElement[int]] = {
        Sort.RATE: columns.rate_rank,
        Sort.AGE: func.coalesce(type_coerce(columns.running_since, BigInteger), literal_column(str(BEYOND))),
        Sort.NAME: literal_column("0", BigInteger),
    }
    place = (ranks[sort], columns.name, columns.id)
    query = select(*place).where(columns.gone_at.is_(None), *_conditions(filters))
    if after is not None:
        rank, name, instance_id = after
        query = query.where(tuple_(*place) > (_within(rank), storable(name), _within(instance_id)))
    order = place if sort is not Sort.NAME else place[1:]  # PostgreSQL would take the 0 for a column's number
    return [(row[0], row[1], row[2]) for row in connection.execute(query.order_by(*order).limit(limit))]


@remembers(instances, lifetimes)
def burning_by(connection: Connection, filters: Filters = Filters()) -> list[Burning]:
    """Present instances in a few groups, by the rates that the last pass stored.

    An instance whose rate was not worked out yet counts as unpriced.
    """
    columns = instances.c
    keys = (columns.project, columns.preset, columns.status, columns.provisioning_model)
    sums = (func.count(), func.count(columns.running_since), func.sum(columns.rate_nanos), _count_unpriced())
    query = select(*keys, *sums)
    query = query.where(columns.gone_at.is_(None), *_conditions(filters))
    return [
        Burning(
            project, preset, Status(status), ProvisioningModel(model), many, running, Money(int(nanos or 0)), unpriced
        )
        for project, preset, status, model, many, running, nanos, unpriced in connection.execute(
            query.group_by(*keys).order_by(*keys)
        )
    ]


@remembers(instances)
def are_all_vms(connection: Connection, filters: Filters = Filters()) -> bool:
    """Says whether all present instances that pass the filters are VMs of Compute Engine, whose ids are numbers."""
    gce_id = instances.c.gce_id
    query = select(instances.c.id).where(instances.c.gone_at.is_(None), gce_id.contains("."))
    return connection.execute(query.where(*_conditions(filters)).limit(1)).first() is None


def present(connection: Connection, filters: Filters, ids: Collection[int] | None = None) -> list[PresentInstance]:
    """Every VM that is not gone and passes the filters, or of these VMs those, in no order."""
    return [
        PresentInstance(
            id=row.id,
            project=row.project,
            preset=row.preset,
            status=_STATUSES[row.status],
            name=row.name,
            zone=row.zone,
            shape=shape_of(row),
            provisioning_model=_MODELS[row.provisioning_model],
            started_at=row.started_at,
            unpriced=row.unpriced,
        )
        for row in _each(connection, _present(filters, ids is not None), ids)
    ]


@lru_cache(maxsize=32)  # a pass asks without filters, and pages with few
def _present(filters: Filters, are_named: bool) -> Select[Any]:
    query: Select[Any] = (
        select(
            instances.c.id,
            instances.c.project,
            instances.c.preset,
            instances.c.status,
            instances.c.name,
            func.coalesce(lifetimes.c.zone, instances.c.zone).label("zone"),
            func.coalesce(lifetimes.c.machine_type, instances.c.machine_type).label("machine_type"),
            func.coalesce(lifetimes.c.vcpus, instances.c.vcpus).label("vcpus"),
            func.coalesce(lifetimes.c.memory_mib, instances.c.memory_mib).label("memory_mib"),
            case((lifetimes.c.id.is_(None), instances.c.gpu_type), else_=lifetimes.c.gpu_type).label("gpu_type"),
            func.coalesce(lifetimes.c.gpu_count, instances.c.gpu_count).label("gpu_count"),
            func.coalesce(lifetimes.c.local_ssd_gib, instances.c.local_ssd_gib).label("local_ssd_gib"),
            func.coalesce(lifetimes.c.provisioning_model, instances.c.provisioning_model).label("provisioning_model"),
            lifetimes.c.started_at,
            func.coalesce(lifetimes.c.unpriced, "").label("unpriced"),
        )
        .join_from(
            instances,
            lifetimes,
            and_(lifetimes.c.instance_id == instances.c.id, lifetimes.c.ended_at.is_(None)),
            isouter=True,
        )
        .where(instances.c.gone_at.is_(None), *_conditions(filters))
    )
    return query.where(instances.c.id.in_(_NAMED)) if are_named else query


def open_storage(connection: Connection, ids: Collection[int] | None = None) -> list[tuple[int, str | None, int, str]]:
    """All storage that bills now, or that of these VMs: its instance's id, resource, MiB and zone."""
    query = _OPEN_STORAGE if ids is None else _OPEN_STORAGE_OF
    return [(row.instance_id, row.resource, row.size_mib, row.zone) for row in _each(connection, query, ids)]


_NAMED: BindParameter[Any] = bindparam("named_ids", expanding=True)
_OPEN_STORAGE = select(*(storage_spans.c[name] for name in ("instance_id", "resource", "size_mib", "zone"))).where(
    storage_spans.c.ended_at.is_(None)
)
_OPEN_STORAGE_OF = _OPEN_STORAGE.where(storage_spans.c.instance_id.in_(_NAMED))


def gone_ids(connection: Connection, filters: Filters, after: tuple[datetime, int] | None, limit: int) -> list[int]:
    """VMs that are gone, the latest first; `after` is the (gone_at, id) of the last one already given."""
    gone_at = instances.c.gone_at
    query = select(instances.c.id).where(gone_at.is_not(None), *_conditions(filters))
    if after is not None:
        moment, last = after[0], _within(after[1])
        query = query.where(or_(gone_at < moment, and_(gone_at == moment, instances.c.id < last)))
    return list(connection.scalars(query.order_by(gone_at.desc(), instances.c.id.desc()).limit(limit)))


def instance_id(connection: Connection, key: InstanceKey) -> int | None:
    query = select(instances.c.id).where(instances.c.project == key.project, instances.c.gce_id == key.gce_id)
    return connection.scalar(query)


def gce_id_of(connection: Connection, project: str, named: str) -> str:
    """Google's id of the VM with this id or name: the one that exists, else the one that was seen last.

    What names no VM is returned as it is. Raises Conflict where VMs of several zones have the name.
    """
    if is_id(named):
        return named
    at = instances.c
    of_name = select(at.gce_id).where(at.project == storable(project), at.name == storable(named))
    present = list(connection.scalars(of_name.where(at.gone_at.is_(None)).order_by(at.gce_id)))
    if len(present) > 1:
        raise Conflict(f"Several VMs of {project} are called {named}: {', '.join(present)}.", "Name one by its id.")
    return next(iter(present), None) or connection.scalar(of_name.order_by(at.id.desc()).limit(1)) or named


def known(connection: Connection, ids: Sequence[int]) -> list[FleetInstance]:
    """These instances, in the order of the ids."""
    looks = {look.project: look for look in projects.read_all(connection)}
    by_id = {row.id: _known(row, looks.get(row.project)) for row in _instances(connection, tuple(ids))}
    return [by_id[instance_id] for instance_id in ids if instance_id in by_id]


@remembers(instances)
def _instances(connection: Connection, ids: tuple[int, ...]) -> list[Row[Any]]:
    return [row for chunk in chunks(ids) for row in connection.execute(*_of_ids(chunk))]


@prepared
def _of_ids(ids: list[int]) -> Select[Any]:
    return select(instances).where(instances.c.id.in_(ids))


# Ten thousand rows are read at once, and calling an enum is slow.
_MODELS = {model.value: model for model in ProvisioningModel}
_STATUSES = {status.value: status for status in Status}


def _each(connection: Connection, query: Select[Any], ids: Collection[int] | None) -> Iterator[Row[Any]]:
    """Runs the query, or with ids the query of `_NAMED` ones, chunk by chunk."""
    if ids is None:
        yield from connection.execute(query)
        return
    for some in chunks(ids):
        yield from connection.execute(query, {_NAMED.key: some})


def _count_unpriced() -> ColumnElement[int]:
    """Counts instances whose rate is not whole or not computed, and whose open lifetime could not be charged whole."""
    columns = lifetimes.c
    # Written out rather than bound: SQLite uses a partial index only where it can see the constant.
    uncharged = select(columns.instance_id).where(columns.ended_at.is_(None), columns.unpriced != literal_column("''"))
    is_unpriced = or_(
        instances.c.rate_rank.is_(None),
        instances.c.rate_rank == literal_column(str(UNPRICED_RANK)),
        instances.c.id.in_(uncharged),
    )
    return func.count(case((is_unpriced, 1)))


def _within(number: int) -> int:
    """Limits a cursor's number to the range of databases."""
    return max(-BEYOND, min(number, BEYOND))


def _conditions(filters: Filters) -> list[ColumnElement[bool]]:
    several = (
        (instances.c.project, filters.projects),
        (instances.c.preset, filters.presets),
        (instances.c.owner, filters.owners),
        (instances.c.status, filters.statuses),
    )
    conditions: list[ColumnElement[bool]] = [column.in_(wanted) for column, wanted in several if wanted]
    if filters.name is not None:
        conditions.append(instances.c.name == filters.name)
    if filters.name_holds is not None:  # names are in lower case, and PostgreSQL looks at case
        conditions.append(instances.c.name.contains(storable(filters.name_holds).lower(), autoescape=True))
    if filters.gce_id is not None:
        conditions.append(instances.c.gce_id == filters.gce_id)
    if filters.gpu == "any":
        conditions.append(instances.c.gpu_count > 0)
    elif filters.gpu == "none":
        conditions.append(instances.c.gpu_count == 0)
    elif filters.gpu is not None:
        conditions.append(instances.c.gpu_type == filters.gpu)
    if filters.keepers:
        conditions.append(label_value(KEEPER_LABEL).in_(filters.keepers))
    if filters.cluster is not None:
        conditions.append(label_value(label_of_cluster(filters.cluster)) == storable(filters.cluster))
    if filters.spot is not None:
        model = ProvisioningModel.SPOT if filters.spot else ProvisioningModel.STANDARD
        conditions.append(instances.c.provisioning_model == model)
    return conditions


def _known(row: Row[Any], look: ProjectLook | None) -> FleetInstance:
    unread = "" if look is None or row.gone_at is not None else _unread(look.unread, row)
    # Present in a look that read its zone means seen then; otherwise only the last whole look is sure.
    last_look = None if look is None else look.last_complete_at if unread else look.last_tried_at
    return FleetInstance(
        id=row.id,
        key=InstanceKey(row.project, row.gce_id),
        name=row.name,
        zone=row.zone,
        status=Status(row.status),
        shape=shape_of(row),
        provisioning_model=ProvisioningModel(row.provisioning_model),
        labels=row.labels,
        kept=Keeper.of_stored(row.keeper) or recorded_keeper(row.labels, row.origin, row.zone, row.job),
        preset=row.preset,
        owner=row.owner,
        owner_source=row.owner_source,
        job=row.job,
        created_by=row.created_by,
        created_at=row.created_at,
        first_seen_at=row.first_seen_at,
        last_seen_at=row.gone_at or last_look,
        gone_at=row.gone_at,
        terminates_at=row.termination_at,
        unread=unread,
    )


def _unread(unread: Sequence[Unread], row: Row[Any]) -> str:
    scopes = scopes_of(InstanceKey(row.project, row.gce_id), row.zone)
    return next((part.reason for part in unread if part.scope in scopes), "")
