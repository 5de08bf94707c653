"""Builds what takes in jobs, sweeps and schedules, and agents' events."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from costguard.access import signing
from costguard.access.rules import Rules
from costguard.checkpoints.client import InScaledTime
from costguard.db.transaction import Database
from costguard.identity.instances import InstanceIdentities, keys_of
from costguard.jobs.reports.agent_events import KEY_NAME, AgentEvents, AgentTokens
from costguard.jobs.reports.vm_claims import VmClaims
from costguard.jobs.rows.history.zone_advice import RegionAdvice, ZoneAdvice
from costguard.jobs.submit.assess import Assessor
from costguard.jobs.submit.code import CodeArchives
from costguard.jobs.submit.submit import JobService
from costguard.jobs.submit.where.addresses import AddressFinder
from costguard.jobs.submit.where.targets import LaunchTargets
from costguard.ledger.discovery.watch import WatchList
from costguard.main.checkpoints import checkpoints, code_archives, data_places
from costguard.main.ids import new_job_id, new_schedule_id, new_sweep_id
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.launch import CapacityAdvice, ReservedVms, SpotListPrice, WayOut
from costguard.model.ports import Checkpoints, Clock
from costguard.schedules.submit import ScheduleService
from costguard.settings import Settings
from costguard.sweeps.quote import SweepAssessor
from costguard.sweeps.submit import SweepService
from costguard.trackers.points import TrackedJobs

if TYPE_CHECKING:
    from costguard.gce.client import ComputeCloud


@dataclass(frozen=True, slots=True)
class JobServices:
    """`service` accepts jobs, `sweeps` sweeps, `agent_events` the agents' events, `code` is what jobs run.

    `vm_claims` gives the agents on VMs that a group made their tokens.
    """

    service: JobService
    sweeps: SweepService
    schedules: ScheduleService
    agent_events: AgentEvents
    code: CodeArchives
    vm_claims: VmClaims


def job_services(
    settings: Settings,
    rules: Rules,
    database: Database,
    clock: Clock,
    speed: float,
    wake: Callable[[], None],
    news: Callable[[], None],
) -> JobServices:
    """`wake` asks for a turn of the jobs, `news` for a look at the VMs as well."""
    stored: Checkpoints = checkpoints(settings, os.environ)
    if speed != 1:
        stored = InScaledTime(stored, clock, speed)
    launching = _launching(settings, database, clock)
    tokens = AgentTokens(signing.kept(database, KEY_NAME, clock.now()))
    code, data = code_archives(settings, database), data_places(settings, os.environ)
    assessor = Assessor(database, clock, rules, launching, stored, data, code)
    service = JobService(database, clock, rules, assessor, launching, new_job_id, wake)
    of_sweeps = SweepAssessor(database, clock, rules, assessor)
    sweeps = SweepService(database, clock, rules, of_sweeps, new_sweep_id, wake, code)
    schedules = ScheduleService(database, clock, rules, assessor, service, new_schedule_id, wake)
    named = settings.trackers.names
    reported = TrackedJobs(database, named).reported if named else None
    identities = InstanceIdentities(clock, keys_of(settings.compute.endpoint))
    claims = VmClaims(database, identities.vm, tokens.of, rules.jobs.guard_url)
    agents = AgentEvents(database, clock, tokens, news, reported)
    return JobServices(service, sweeps, schedules, agents, code, claims)


_PATIENCE = timedelta(seconds=2)  # of a quote, with Google's advice on zones, once a day


def _launching(settings: Settings, database: Database, clock: Clock) -> LaunchTargets:
    cloud = _Cloud(settings, clock)
    advice, addresses = ZoneAdvice(cloud.preemption_rate, _PATIENCE), AddressFinder(cloud.way_out, clock)
    capacity = RegionAdvice(cloud.capacity_advice, cloud.spot_prices, _PATIENCE)
    watched = WatchList(database, settings.watch.scope)
    return LaunchTargets(watched, cloud.shape, advice, addresses, cloud.reservation, capacity)


class _Cloud:
    """Shapes of machine types, ways out, advice on zones, reservations.

    Google's client is loaded for the first that is asked for.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._endpoint = settings.compute.endpoint
        self._tpu_nodes = settings.watch.tpu_nodes == "watch"
        self._clock = clock
        self._lock = threading.Lock()
        self._cloud: ComputeCloud | None = None

    def shape(self, project: str, zone: str, machine_type: str) -> Shape | None:
        return self._loaded().shape(project, zone, machine_type)

    def preemption_rate(self, project: str, zone: str, machine_type: str) -> float | None:
        return self._loaded().preemption_rate(project, zone, machine_type)

    def capacity_advice(
        self, project: str, region: str, machine_type: str, model: ProvisioningModel
    ) -> CapacityAdvice | None:
        return self._loaded().capacity_advice(project, region, machine_type, model)

    def spot_prices(self, project: str, region: str, machine_type: str) -> Sequence[SpotListPrice]:
        return self._loaded().spot_prices(project, region, machine_type)

    def way_out(self, project: str, region: str, network: str, subnetwork: str) -> WayOut:
        return self._loaded().launcher.way_out(project, region, network, subnetwork)

    def reservation(self, project: str, zone: str, reference: str) -> ReservedVms | None:
        return self._loaded().reservation(project, zone, reference)

    def _loaded(self) -> ComputeCloud:
        with self._lock:
            if self._cloud is None:
                from costguard.gce.client import ComputeCloud  # only here: most who serve never ask Google

                self._cloud = ComputeCloud(self._endpoint, self._clock, tpu_nodes=self._tpu_nodes)
            return self._cloud
