"""Unusual spending in a project, compared with its own past."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.ledger import projects
from costguard.ledger.accrual import Accrual
from costguard.ledger.running import running_totals
from costguard.model.event import Event, new_event
from costguard.model.instance import accelerator_words
from costguard.model.money import Money
from costguard.spend import burning
from costguard.spend.anomaly import GPU_DAYS, LEAST_WEEKS, WEEKS, unusual_burn

_HOUR = timedelta(hours=1)
_WEEK = timedelta(weeks=1)


def anomalies(connection: Connection, accrual: Accrual, *, with_rates: bool) -> list[Event]:
    """Lists the unusual spending of this moment, announced before or not: an unusual rate once a day, sudden
    GPUs once.
    """
    watched = {look.project: look.first_seen_at for look in projects.read_all(connection)}
    anomalies = list(_gpus(connection, watched, accrual.now))
    return [*anomalies, *_rates(connection, accrual, watched)] if with_rates else anomalies


def _gpus(connection: Connection, watched: dict[str, datetime], now: datetime) -> Iterator[Event]:
    without = timedelta(days=GPU_DAYS)
    for project, since in watched.items():
        if now - since < without:
            continue
        started_at = burning.sudden_gpus(connection, project, without)
        if started_at is not None and started_at - since >= without:
            words = accelerator_words(run.shape for run in burning.with_gpus(connection, project))
            yield new_event(
                "GpusAppeared",
                started_at,
                f"{words} run in project {project}, which had none in the {GPU_DAYS} days before.",
                *(project, started_at.isoformat()),
                project=project,
            )


def _rates(connection: Connection, accrual: Accrual, watched: dict[str, datetime]) -> Iterator[Event]:
    now = accrual.now
    moments = [now - week * _WEEK + hour * _HOUR for week in range(1, WEEKS + 1) for hour in (-1, 0, 1)]
    old = {project: since for project, since in watched.items() if now - since >= LEAST_WEEKS * _WEEK + _HOUR}
    if not old:
        return
    rates: Counter[str] = Counter()
    for group, _, figures in running_totals.read(connection, accrual, by=["project"]):
        rates[group.project] += figures.machine_rate + figures.gpu_rate
    past = {moment: burning.machine_rate_at(connection, moment) for moment in moments}
    for project, since in old.items():
        rate = Money(rates[project])
        before = [Money(past[moment].get(project, 0)) for moment in moments if moment >= since]
        usual = unusual_burn(rate, before)
        if usual is not None:
            yield new_event(
                "BurnRateUnusual",
                now,
                f"Machines in project {project} cost {rate} an hour; at this hour of the week, {usual} is usual "
                f"(the median of the last {WEEKS} weeks).",
                *(project, f"{now:%Y-%m-%d}"),
                project=project,
                data={"rate_nanos": rate.nanos, "usual_nanos": usual.nanos},
            )
