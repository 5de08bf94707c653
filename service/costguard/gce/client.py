"""Compute Engine as the port `Cloud`: observes a project, and looks up a single VM."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from costguard.errors import CloudError, CredentialsRefused, NotFound, PermissionDenied
from costguard.garbage import not_searched
from costguard.gce.actions import ComputeActuator, ComputeLauncher
from costguard.gce.advice import capacity_advice, preemption_rate, spot_prices
from costguard.gce.asset_history import read_history
from costguard.gce.assets import SEARCH_BUDGET_S, search_place
from costguard.gce.disks import DiskDetails, DiskListing, list_disks
from costguard.gce.errors import NoAnswer
from costguard.gce.kept import KEPT_SCOPES, KeptStops
from costguard.gce.listing import (
    InstanceListing,
    KnownPage,
    Remembered,
    forget,
    join,
    list_instances,
    of_other_disks,
    unread_of,
)
from costguard.gce.loose import list_loose
from costguard.gce.machine_types import MachineTypes
from costguard.gce.monitoring import read_usage, with_vertex_usage
from costguard.gce.official import Official
from costguard.gce.operations import SettledPage, list_operations
from costguard.gce.presence import vm_presence
from costguard.gce.reserved_model import read_reservation
from costguard.gce.session import Deadline, Http
from costguard.gce.tpu_nodes import TpuLook, TpuMemory, look_at_nodes
from costguard.gce.tpu_nodes import presence as node_presence
from costguard.gce.tpu_queue import with_tpus
from costguard.gce.vertex.look import (
    NOWHERE,
    VertexAsking,
    VertexMemory,
    VertexRegions,
    look_at_one,
    look_at_vertex,
    vertex_presence,
)
from costguard.gce.vm_groups import ComputeGroups
from costguard.model.instance import InstanceKey, InstanceKind, ProvisioningModel, Shape, Status
from costguard.model.keeper import Keeper
from costguard.model.launch import CapacityAdvice, OperationAnswer, ReservedVms, SpotListPrice
from costguard.model.observation import (
    AssetAnswer,
    LooseKind,
    LooseListing,
    Observation,
    PlaceSearch,
    Presence,
    Sighting,
    Unread,
)
from costguard.model.utilisation import Usage

if TYPE_CHECKING:
    from requests.adapters import BaseAdapter

_USAGE_BUDGET_S = 60.0
_LOOSE_BUDGET_S = 30.0  # a user waits for it
_TPU_BUDGET_S = 30.0
_VERTEX_BUDGET_S = 60.0  # some tens of regions
_HISTORY_BUDGET_S = 60.0
_PRESENCE_BUDGET_S = 10.0


# A disk that grows without any change of its VM is seen this late.
_DISKS_SERVE_S = 600.0


class _Clock(Protocol):
    def now(self) -> datetime: ...


@dataclass(slots=True)
class _LastLook:
    """The result of the last look at a project; one look at a project at a time uses it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    instances: dict[str, Remembered] = field(default_factory=dict)
    pages: Mapping[int, KnownPage] = field(default_factory=dict)  # of the last look, whose VMs had not changed
    disks: dict[str, tuple[int, DiskDetails]] = field(default_factory=dict)
    disk_listing: DiskListing | None = None  # the last whole one, which may serve again
    joined_disks: DiskListing | None = None  # with which every VM in `instances` was joined
    disks_listed_s: float = 0.0
    order_holds: bool = False
    settled: Mapping[int, SettledPage] = field(default_factory=dict)  # pages of operations
    tpu: TpuMemory = field(default_factory=TpuMemory)
    vertex: VertexMemory = field(default_factory=VertexMemory)


class Patience(NamedTuple):
    """Seconds for one request, and for one look at a project as a whole."""

    request_s: float = 30.0
    look_s: float = 180.0


_PATIENCE = Patience()


class ComputeCloud:
    """Thread-safe: projects may be looked at in parallel; connections are pooled.

    Without an endpoint it is Google, with the machine's default credentials; with one it is another
    server, reached without credentials unless some are given. With `tpu_nodes`, the nodes and queued resources of the
    Cloud TPU API are read, too. An `adapter` carries requests in the place of sockets.
    """

    def __init__(
        self,
        endpoint: str | None,
        clock: _Clock,
        *,
        credentials: Any = None,
        patience: Patience = _PATIENCE,
        wait: Callable[[float], bool] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        adapter: BaseAdapter | None = None,
        tpu_nodes: bool = False,
    ) -> None:
        self._clock = clock
        self._vertex_regions = NOWHERE
        self._tpu_nodes = tpu_nodes
        self._closing = threading.Event()
        http = partial(
            Http,
            endpoint,
            credentials=credentials,
            timeout_s=patience.request_s,
            wait=wait or self._closing.wait,
            adapter=adapter,
        )
        self._http = http()
        self._official = Official(self._http, timeout_s=min(patience.request_s, 10.0))
        self._actuator = ComputeActuator(self._official)
        self._services = http(scopes=KEPT_SCOPES)
        self._kept = KeptStops(self._official, self._services, monotonic)
        self._types = MachineTypes(self._official.machine_type, monotonic)
        self.launcher = ComputeLauncher(self._official, self._types, ComputeGroups(self._official))
        self._budget_s = patience.look_s
        self._monotonic = monotonic
        self._memories: dict[str, _LastLook] = {}
        self._lock = threading.Lock()

    def watch_vertex(self, regions: VertexRegions) -> Self:
        """Has looks read what bills of Vertex AI in these regions, too."""
        self._vertex_regions = regions
        return self

    def prepare(self) -> None:
        """Loads what the first change of a VM would wait for."""
        self._official.load()

    def close(self) -> None:
        """Cut short every wait before a repeated request, and let the connections go."""
        self._closing.set()
        self._http.close()
        self._services.close()

    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        """Look at one project. Never raises a CloudError: what could not be read is in `unread`.

        Instances are listed first and operations only after that, so whatever the listing shows to have
        changed has its operation here.
        """
        with self._lock:
            memory = self._memories.setdefault(project, _LastLook())
        with memory.lock, not_searched():
            observation = self._look(project, operations_since, memory)
            return self._with_vertex(observation, operations_since, memory.vertex)

    def _with_vertex(self, seen: Observation, since: datetime | None, memory: VertexMemory) -> Observation:
        """Where nothing of the project could be read, nothing of Vertex AI is asked: what ended would be lost."""
        if any(part.is_whole for part in seen.unread):
            return seen
        deadline = Deadline(min(_VERTEX_BUDGET_S, self._budget_s), self._monotonic)
        asking = VertexAsking(self._services, seen.project, deadline, since, seen.read_at, self._monotonic())
        vertex = look_at_vertex(asking, self._vertex_regions, memory)
        running = {one.key.gce_id for one in vertex.resources if one.status is not Status.STOPPED}
        stopped = self._kept.of_vertex.ended(self._services, seen.project, running, deadline)
        return replace(
            seen,
            instances=(*seen.instances, *vertex.resources),
            operations=(*seen.operations, *vertex.operations, *stopped),
            unread=(*seen.unread, *vertex.unread),
            requests=seen.requests + deadline.requests,
        )

    def forget(self, project: str, gce_ids: Collection[str]) -> None:
        """Have the next look show these VMs whole, though they may be unchanged since the last one."""
        with self._lock:
            memory = self._memories.setdefault(project, _LastLook())
        with memory.lock:
            forget(memory.instances, gce_ids)

    def _look(self, project: str, since: datetime | None, memory: _LastLook, *, is_second: bool = False) -> Observation:
        """Looks once more where disks of unchanged VMs are not what they were: these VMs are to come whole, and
        operations after them.
        """
        deadline = Deadline(self._budget_s, self._monotonic)
        of_nodes = Deadline(min(_TPU_BUDGET_S, self._budget_s), self._monotonic) if self._tpu_nodes else None
        read_at = self._clock.now()
        early: list[Future[DiskListing]] = []
        with ThreadPoolExecutor(2, thread_name_prefix="disks") as pool:
            nodes_later = pool.submit(self._nodes, project, of_nodes, memory.tpu) if of_nodes is not None else None

            def begun() -> None:
                # A first look needs all disks: they are asked for along with the instances.
                if memory.disk_listing is None:
                    early.append(pool.submit(self._listed_disks, project, deadline, memory))

            listing = list_instances(self._http, project, deadline, memory.instances, begun, memory.pages)
            memory.pages = listing.known_pages
            if listing.error and not listing.pages and _is_about_all(listing.error):
                unread = Unread("project", str(listing.error), listing.error.code)
                return Observation(
                    project, read_at, instances_complete=False, unread=(unread,), requests=deadline.requests
                )
            operations_asked_at = self._clock.now()
            disks_later = early[0] if early else pool.submit(self._disks, project, deadline, memory, listing)
            done = list_operations(
                self._http, project, deadline, since, order_holds=memory.order_holds, settled=memory.settled
            )
            disks = disks_later.result()
            nodes = nodes_later.result() if nodes_later is not None else TpuLook()
        memory.order_holds, memory.settled = done.order_holds, done.settled
        others = of_other_disks(listing, disks.details) if disks is not memory.joined_disks else []
        if others and not is_second:
            forget(memory.instances, others)
            return self._look(project, since, memory, is_second=True)
        fleet = join(
            project, listing, disks.details, memory.instances, lambda zone, name: self._types.shape(project, zone, name)
        )
        if early and not memory.instances and any(None in vm.disk_details for vm in fleet.by_id.values()):
            memory.disk_listing = None  # a disk may have been made since its page was read: the next look lists again
        missed_some = bool(listing.incomplete or listing.unread_zones or fleet.garbled)
        memory.joined_disks = None if missed_some or others else disks
        memory.instances = {**memory.instances, **fleet.by_id} if missed_some else fleet.by_id
        unread_parts = unread_of(project, listing, fleet, disks)
        if done.unread:
            unread_parts.append(done.unread)
        garbled_zones = {zone for zone, _ in fleet.garbled}
        return Observation(
            project=project,
            read_at=read_at,
            instances=(*fleet.seen.values(), *nodes.nodes),
            unchanged=fleet.unchanged,
            instances_complete=not listing.incomplete and "" not in garbled_zones,
            unread_zones=frozenset(listing.unread_zones) | garbled_zones - {""},
            operations=(*done.operations.values(), *nodes.operations),
            operations_through_at=None if done.unread else operations_asked_at,
            unread=(*unread_parts, *nodes.unread),
            requests=deadline.requests + (of_nodes.requests if of_nodes is not None else 0),
        )

    def shape(self, project: str, zone: str, machine_type: str) -> Shape | None:
        """Returns the parts of a machine type, its built-in GPUs included; None where they cannot be read now.

        Raises NotFound where Google offers no such type in this zone.
        """
        try:
            machine = self._types.shape_or_error(project, zone, machine_type)
        except NotFound:
            raise
        except CloudError:
            return None
        return Shape(
            machine_type, machine.vcpus, machine.memory_mib, machine.gpu_type, machine.gpu_count, machine.local_ssd_gib
        )

    def preemption_rate(self, project: str, zone: str, machine_type: str) -> float | None:
        """Returns Google's own record of the last month; None where it has none. Raises CloudError."""
        return preemption_rate(self._official, project, zone, machine_type)

    def reservation(self, project: str, zone: str, reference: str) -> ReservedVms | None:
        """Returns what the zone has under this name; None where it has none. Raises CloudError."""
        return read_reservation(self._official, project, zone, reference)

    def capacity_advice(
        self, project: str, region: str, machine_type: str, model: ProvisioningModel
    ) -> CapacityAdvice | None:
        """Returns Google's advice on one such VM now; None where it has none. Raises CloudError."""
        return capacity_advice(self._official, project, region, machine_type, model)

    def spot_prices(self, project: str, region: str, machine_type: str) -> Sequence[SpotListPrice]:
        """Returns Google's record of what such Spot VMs cost, oldest first. Raises CloudError."""
        return spot_prices(self._official, project, region, machine_type)

    def loose(self, project: str) -> LooseListing:
        """Lists what bills and nothing uses. Never raises a CloudError: see `LooseListing.unread`."""
        deadline = Deadline(_LOOSE_BUDGET_S, self._monotonic)
        listing = list_loose(self._http, project, deadline, partial(self._types.shape, project))
        return with_tpus(self._services, project, deadline, listing) if self._tpu_nodes else listing

    def reservations(self, project: str) -> LooseListing:
        """Lists reservations with an unused part, and future ones. Never raises a CloudError, as `loose`."""
        deadline = Deadline(_LOOSE_BUDGET_S, self._monotonic)
        shape_of = partial(self._types.shape, project)
        return list_loose(self._http, project, deadline, shape_of, (LooseKind.RESERVATION,))

    def search(self, place: str) -> PlaceSearch:
        """Finds the projects of an organisation or folder that hold what bills. Never raises a CloudError."""
        return search_place(self._services, place, Deadline(SEARCH_BUDGET_S, self._monotonic))

    def history(self, parent: str, names: Sequence[str], calls: int) -> AssetAnswer:
        """Reads what these assets were, in at most so many calls. Raises CloudError."""
        deadline = Deadline(_HISTORY_BUDGET_S, self._monotonic)
        return read_history(self._services, parent, names, self._clock.now(), deadline, calls)

    def usage(self, project: str, since: datetime, until: datetime, *, with_vertex: bool = False) -> Usage:
        """Reads Cloud Monitoring's measurements of the project's VMs. Never raises a CloudError: see `Usage.unread`."""
        deadline = Deadline(_USAGE_BUDGET_S, self._monotonic)
        usage = read_usage(self._http, project, since, until, deadline)
        return with_vertex_usage(self._http, usage, since, until, deadline) if with_vertex else usage

    def _nodes(self, project: str, deadline: Deadline, memory: TpuMemory) -> TpuLook:
        return look_at_nodes(self._services, project, deadline, memory, self._monotonic())

    def _disks(self, project: str, deadline: Deadline, memory: _LastLook, listing: InstanceListing) -> DiskListing:
        """All disks. While no VM changed, the last whole listing serves for a while: disks change with their VMs."""
        if memory.disk_listing and not listing.waiting and self._monotonic() - memory.disks_listed_s < _DISKS_SERVE_S:
            return memory.disk_listing
        return self._listed_disks(project, deadline, memory)

    def _listed_disks(self, project: str, deadline: Deadline, memory: _LastLook) -> DiskListing:
        listing = list_disks(self._http, project, deadline, memory.disks)
        memory.disk_listing = None if listing.error or listing.problems else listing
        memory.disks_listed_s = self._monotonic()
        return listing

    def presence(self, key: InstanceKey, zone: str, name: str) -> Presence:
        """Ask for this one VM by its address and compare ids."""
        if key.kind.is_of_vertex:
            return vertex_presence(self._services, key, Deadline(_VERTEX_BUDGET_S, self._monotonic))
        if key.kind is InstanceKind.TPU_NODE:
            return node_presence(self._services, key, zone, name, Deadline(_TPU_BUDGET_S, self._monotonic))
        return vm_presence(self._http, key, zone, name, Deadline(_PRESENCE_BUDGET_S, self._monotonic))

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        """The VM at this address now; None where there is none. See `ComputeActuator`."""
        return self._actuator.look(project, zone, name)

    def look_at_resource(self, key: InstanceKey) -> Sighting | None:
        """The resource of Vertex AI of this id now; None where there is none. See `ComputeActuator`."""
        return look_at_one(self._services, key, Deadline(_VERTEX_BUDGET_S, self._monotonic))

    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str:
        return self._actuator.stop(project, zone, instance, request_id)

    def stop_kept(self, keeper: Keeper, address: tuple[str, str, str], gce_id: str, request_id: str) -> str:
        """Stops it by its keeper's own API. See `KeptStops`."""
        return self._kept.stop(keeper, address, gce_id, request_id)

    def kept_operation(self, keeper: Keeper, address: tuple[str, str, str], operation: str) -> OperationAnswer | None:
        """Returns the progress of what `stop_kept` began. See `KeptStops`."""
        return self._kept.operation(keeper, address, operation)


def _is_about_all(error: CloudError) -> bool:
    """Says whether other lists of the project would meet the same: asking would only cost time."""
    return isinstance(error, PermissionDenied | CredentialsRefused | NotFound | NoAnswer)
