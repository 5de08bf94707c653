"""Reads utilisation, from Cloud Monitoring and else from jobs' agents, decides which VMs are idle, and stores why."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

import structlog
from sqlalchemy import Connection, select, text

from costguard.db.lease import Lease
from costguard.db.tables import LIVE_ATTEMPT, activity_minutes, attempts
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.isolation import Isolated
from costguard.ledger import projects
from costguard.ledger.discovery.watch import Watched
from costguard.ledger.idle import gpu_use, utilisation
from costguard.ledger.idle.evidence import LAG, Before, MeasuredRun, evidence
from costguard.ledger.idle.gpu_use import DayUse
from costguard.ledger.idle.utilisation import Measured, Running
from costguard.model.event import Event, new_event
from costguard.model.instance import measured_as
from costguard.model.ports import Clock, UsageSource
from costguard.model.preset import Preset
from costguard.model.utilisation import IdleState, Metric, Sample, Usage
from costguard_vm.diagnosis.power import PowerRange, power_share
from costguard_vm.diagnosis.signals import GpuSignals, read_minute

log = structlog.get_logger(__name__)

# What is not yet visible would look like a gap at the end.
SETTLED_AFTER = timedelta(minutes=4)
_SHORTEST_READ = timedelta(hours=1)
_FIRST_READ = timedelta(hours=6)  # how far back the first look of all goes, to tell since when
# Evidence that stays the same is written again only so often.
_REFRESH = timedelta(minutes=15)
_GOOD_FOR = timedelta(hours=1)
_AT_ONCE = 1000  # rows written in one transaction


@dataclass(frozen=True, slots=True)
class IdleReport:
    """The number of VMs judged and of rows written, and the changes as events."""

    judged: int = 0
    written: int = 0
    events: tuple[Event, ...] = ()


class IdleWatch:
    """Reads and records apart, so that a slow answer holds nobody up. `every` is by the guard's clock."""

    def __init__(
        self,
        database: Database,
        source: UsageSource,
        clock: Clock,
        watched: Watched,
        presets: Mapping[str, Preset],
        every: timedelta,
        parallel: int = 8,
    ) -> None:
        self._database = database
        self._source = source
        self._clock = clock
        self._watched = watched
        self._presets = presets
        self._good_for = max(_GOOD_FOR, 4 * every)
        self._parallel = parallel
        windows = [preset.idle.window for preset in presets.values() if preset.idle is not None]
        self._longest = max(windows, default=None)
        self._has_read: set[str] = set()

    def read(self, stop: threading.Event | None = None) -> list[Usage]:
        """Reads the measurements of every project that has running VMs; writes nothing."""
        if self._longest is None:
            return []
        watched = self._watched()
        with self._database.read() as connection:
            running = {project: utilisation.running(connection, project) for project in watched}
        wanted = {project: any(vm.key.kind.is_of_vertex for vm in fleet) for project, fleet in running.items() if fleet}
        until = self._clock.now() - SETTLED_AFTER
        with ThreadPoolExecutor(max(1, min(self._parallel, len(wanted))), thread_name_prefix="usage") as pool:
            looks = [pool.submit(self._look, project, of_vertex, until, stop) for project, of_vertex in wanted.items()]
            return [usage for look in looks if (usage := look.result()) is not None]

    def _look(self, project: str, with_vertex: bool, until: datetime, stop: threading.Event | None) -> Usage | None:
        if stop is not None and stop.is_set():
            return None
        assert self._longest is not None
        least = _SHORTEST_READ if project in self._has_read else _FIRST_READ
        since = until - max(least, self._longest + SETTLED_AFTER)
        with Isolated("usage_not_read", project=project) as failure:
            usage = self._source.usage(project, since, until, with_vertex=with_vertex)
            if not usage.unread and not usage.vertex_unread:
                self._has_read.add(project)
            return usage
        # An error that no adapter should let through costs one project its evidence.
        reason = f"{failure.words}; the log holds the trace to report."
        return Usage(project, unread=dict.fromkeys(Metric, reason), vertex_unread=reason)

    def record(self, usages: Sequence[Usage], fence: Lease | None = None) -> IdleReport:
        """Judge and keep. Raises LeaseLost when another daemon took over, and StoreError."""
        now = self._clock.now()
        events: list[Event] = []
        judged = written = 0
        for usage in usages:
            with self._database.read() as connection:
                before = utilisation.of_project(connection, usage.project)
                fleet = utilisation.running(connection, usage.project)
                with_gpus = [vm.key.gce_id for vm in fleet if vm.shape.gpu_count]
                measured = with_agents(connection, usage, with_gpus, now - _FIRST_READ)
                watched_since = projects.watched_since(connection, usage.project) or now
                judgements = list(self._judge(fleet, before, measured, now))
            for at in range(0, len(judgements), _AT_ONCE):
                some = judgements[at : at + _AT_ONCE]
                changed = [(vm, one) for vm, one in some if _is_news(before.get(vm.id), one)]
                new_events = [event for vm, one in some if (event := _event(vm, before.get(vm.id), one)) is not None]
                if changed or new_events:
                    with self._database.write(fence) as connection:
                        written += utilisation.record(connection, [one for _, one in changed])
                        # In the same transaction as up to when they are counted: no sample counts twice.
                        gpu_use.add(connection, usage.project, _used(changed, before, measured, watched_since))
                        audit_log.append(connection, new_events, now)
                    events += new_events
            ended = sorted(before.keys() - {one.instance_id for _, one in judgements})
            for at in range(0, len(ended), _AT_ONCE):
                with self._database.write(fence) as connection:
                    utilisation.forget(connection, ended[at : at + _AT_ONCE])
            judged += len(judgements)
        return IdleReport(judged, written, tuple(events))

    def _judge(
        self, fleet: Sequence[Running], before: Mapping[int, Measured], usage: Usage, now: datetime
    ) -> Iterator[tuple[Running, Measured]]:
        for vm in fleet:
            preset = self._presets.get(vm.preset)
            if preset is None or preset.idle is None:
                continue
            old = before.get(vm.id)
            last = _same_run(old, vm)
            earlier = None if last is None else Before(last.evidence, last.measured_at)
            run = MeasuredRun(
                measured_as(vm.key.gce_id), vm.shape, vm.started_at, vm.key.kind, idle_shutdown=vm.idle_shutdown
            )
            judged = evidence(run, preset.idle, usage, now, earlier)
            announced = None if last is None else last.announced
            if judged.state is IdleState.IDLE or (judged.state is IdleState.BUSY and announced is IdleState.IDLE):
                announced = judged.state
            settled_to = now - LAG  # what is newer may not be whole yet
            counted_to = settled_to if old is None or old.counted_to is None else max(old.counted_to, settled_to)
            yield vm, Measured(vm.id, vm.started_at, now, now + self._good_for, judged, announced, counted_to)


def _used(
    judged: Sequence[tuple[Running, Measured]], before: Mapping[int, Measured], usage: Usage, watched_since: datetime
) -> dict[date, DayUse]:
    """Adds up the GPU use of these VMs that is not counted yet: no earlier than their runs and the watching began."""
    days: dict[date, DayUse] = {}
    for vm, one in judged:
        old = before.get(vm.id)
        begun = max(vm.started_at, watched_since)
        since = begun if old is None or old.counted_to is None else max(begun, old.counted_to)
        series = usage.of(vm.key.gce_id, Metric.GPU)
        for day, use in gpu_use.counted(series, vm.shape.gpu_count, since, one.counted_to or since).items():
            days[day] = days.get(day, DayUse()) + use
    return days


def _same_run(row: Measured | None, vm: Running) -> Measured | None:
    return row if row is not None and row.run_started_at == vm.started_at else None


def _is_news(old: Measured | None, new: Measured) -> bool:
    if old is None or new.measured_at - old.measured_at >= _REFRESH:
        return True
    return replace(new, measured_at=old.measured_at, good_until=old.good_until, counted_to=old.counted_to) != old


def _event(vm: Running, old: Measured | None, new: Measured) -> Event | None:
    """Recorded once: VMs that became idle, and VMs recorded as idle that are busy again."""
    last = _same_run(old, vm)
    if new.announced is None or (last is not None and last.announced is new.announced):
        return None
    judged = new.evidence
    is_idle = new.announced is IdleState.IDLE
    kind = "InstanceIdle" if is_idle else "InstanceBusy"
    return new_event(
        kind,
        new.measured_at,
        f"{vm.name} is idle: {judged.sentence}." if is_idle else f"{vm.name} is busy again: {judged.sentence}.",
        *(vm.key.project, vm.key.gce_id, judged.since.isoformat()),
        vm=vm.key,
        name=vm.name,
        data={"since": judged.since, "is_weak": judged.is_weak},
    )


_METRICS = (Metric.SM, Metric.GPU, Metric.POWER)
_Key = tuple[str, Metric]


def with_agents(connection: Connection, usage: Usage, gce_ids: Collection[str], since: datetime) -> Usage:
    """The usage of a project with its agents' minutes of these VMs. A metric that Google has of a VM stays as it is."""
    wanted = {gce_id for gce_id in gce_ids if not all(usage.of(gce_id, metric) for metric in _METRICS)}
    if not wanted:
        return usage
    values: dict[_Key, dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    query = (
        select(attempts.c.gce_id, activity_minutes.c.at, activity_minutes.c.minute["gpus"])
        .join_from(activity_minutes, attempts, attempts.c.id == activity_minutes.c.attempt_id)
        .where(attempts.c.project == usage.project, text(LIVE_ATTEMPT), activity_minutes.c.at > since)
        .order_by(activity_minutes.c.at)
    )
    for gce_id, at, gpus in connection.execute(query):
        minute = read_minute({"gpus": gpus}) if gce_id in wanted else None
        for place, gpu in enumerate(minute.gpus or () if minute is not None else ()):
            for metric, share in _shares(gpu):
                if share is not None and share <= 1:
                    # Upwards: what is just under a threshold must not fall further under it.
                    values[gce_id, metric][_name(gpu, place)].append(Sample(at, math.ceil(share * 10_000)))
    series = {key: tuple(map(tuple, by_gpu.values())) for key, by_gpu in values.items() if not usage.of(*key)}
    return replace(usage, series={**usage.series, **series})


def _shares(gpu: GpuSignals) -> list[tuple[Metric, float | None]]:
    least, most = gpu.power_least_w, gpu.power_most_w
    seen = None if least is None or most is None else PowerRange(least, most)
    power = power_share(gpu.power_w, seen, gpu.power_limit_w)
    return [(Metric.SM, gpu.sm_active), (Metric.GPU, gpu.kernel_active), (Metric.POWER, power)]


def _name(gpu: GpuSignals, place: int) -> str:
    return gpu.uuid or str(place)
