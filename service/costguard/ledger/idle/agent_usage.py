"""GPU use of jobs' VMs as their own agents measured it, where Cloud Monitoring has no figures of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, select, text

from costguard.db.tables import LIVE_ATTEMPT, activity_minutes, attempts
from costguard.model.utilisation import Metric, Sample, Usage
from costguard_vm.diagnosis.power import PowerRange, power_share
from costguard_vm.diagnosis.signals import GpuSignals, read_minute

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
