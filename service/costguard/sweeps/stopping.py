"""Stops the members of a sweep that halving decided on, and lets people keep members or end halving."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.events import audit_log
from costguard.jobs.rows import attempts, job_rows
from costguard.model.job import EarlyEnd, Job
from costguard.model.money import Money
from costguard.model.reported.metric import HIGHER
from costguard.model.sweep import Halving, MemberStop
from costguard.sweeps import sweep_events, sweep_rows
from costguard.sweeps.decide import SweepView
from costguard.sweeps.halving import Loser
from costguard.sweeps.member_curves import pace_of


def stop_losers(connection: Connection, view: SweepView, losers: Sequence[Loser], now: datetime) -> int:
    """Ends the jobs of these members early, with the reason, in the transaction that they were decided on in.

    Returns how many. A job that is over, or is being cancelled, stays as it is, and is not counted as stopped.
    """
    sweep, curves = view.sweep, view.curves
    if sweep.halving is None or curves is None or curves.total is None:
        return 0
    members = {one.member.number: one.member for one in view.members}
    jobs = job_rows.of_ids(connection, [members[loser.number].job_id for loser in losers])
    count = 0
    for loser in losers:
        member = members[loser.number]
        job = jobs.get(member.job_id)
        reason = reason_text(loser, sweep.halving, curves.unit)
        if job is None or not job_rows.end_early(connection, job.id, EarlyEnd.LOSER, reason, now):
            continue
        reached = next(one.reached for one in curves.members if one.number == loser.number)
        pace = pace_of(connection, sweep, member.jobs, curves.unit)
        rest = timedelta(seconds=round((curves.total - reached) / pace)) if pace else None
        stop = MemberStop(
            job_id=job.id,
            stopped_at=now,
            step=loser.step,
            unit=curves.unit,
            reason=reason,
            rest=rest,
            gpus=job.recipe.gpu_count * job.spec.nodes,
            saved=_cost(connection, job, rest),
        )
        sweep_rows.add_stop(connection, sweep.id, loser.number, stop)
        audit_log.append(connection, [sweep_events.stopped(sweep, member, stop, now)], now)
        count += 1
    return count


def reason_text(loser: Loser, halving: Halving, unit: str) -> str:
    """`stopped at step 3,000 by halving: its val_loss of 2.31 is 7th of 9, and the best 3 go on`."""
    value = -loser.value if halving.better == HIGHER else loser.value
    best = "the best goes on" if loser.kept == 1 else f"the best {loser.kept} go on"
    place = f"{sweep_events.nth(loser.place)} of {loser.compared}"
    metric = f"{halving.metric_text} of {value:.6g}"
    return f"stopped at {unit} {loser.step:,.10g} by halving: its {metric} is {place}, and {best}"


def keep(connection: Connection, view: SweepView, numbers: Collection[int], by: str, now: datetime) -> bool:
    """Keeps members from being stopped; with no numbers ends halving for all. False: it was so before."""
    sweep = view.sweep
    if not numbers:
        changed = sweep_rows.end_halving(connection, sweep.id, by, now)
    else:
        changed = sweep_rows.keep(connection, sweep.id, numbers, by, now) > 0
    if changed:
        audit_log.append(connection, [sweep_events.kept(sweep, by, sorted(numbers), now)], now)
    return changed


def _cost(connection: Connection, job: Job, rest: timedelta | None) -> Money | None:
    """Returns the cost of so much more of its present VMs; None where their rate is not known."""
    tried = attempts.of_jobs(connection, [job.id]).get(job.id, ())
    rate = next((one.rate for one in reversed(tried) if one.rate is not None), None)
    return None if rate is None or rest is None else rate.times(job.spec.nodes).over(rest)
