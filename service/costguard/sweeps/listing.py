"""Sweeps as the API, the page and the command line show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce

from sqlalchemy import Connection

from costguard.db.named import RowFilters
from costguard.jobs.listing.jobs import JobRow, rows_of
from costguard.jobs.rows import job_rows
from costguard.ledger.accrual import Accrual
from costguard.model.job import JobState
from costguard.model.money import ZERO, Money, Priced
from costguard.model.reported.metric import SeenMetric
from costguard.model.sweep import Halving, MemberStop, Sweep, SweepMember
from costguard.sweeps import gather, sweep_rows
from costguard.sweeps.decide import SweepView
from costguard.sweeps.ranking import MemberRow, SweepResult, ranked, result_of, sent_by, winner_of, with_best


@dataclass(frozen=True, slots=True)
class SweepRow:
    """A sweep among others. `reserved` is what VMs of its members may still cost; None: there is no ceiling."""

    sweep: Sweep
    cost: Priced
    members: int
    waiting: int
    open: int
    succeeded: int
    failed: int
    cancelled: int
    reserved: Money | None


@dataclass(frozen=True, slots=True)
class HalvingRow:
    """The halving of a sweep. What its stops save is an estimate: `gpu_time` and `saved` leave out `unknown` of them.

    `waits`: why nothing can be compared yet; "" where it can, or where nothing is compared any more.
    """

    halving: Halving
    ended_at: datetime | None
    ended_by: str
    stops: Sequence[MemberStop]
    waits: str

    @property
    def stopped(self) -> int:
        return len(self.stops)

    @property
    def unknown(self) -> int:
        return sum(stop.saved is None for stop in self.stops)

    @property
    def gpu_time(self) -> timedelta | None:
        """Returns the time of GPUs that is expected to be saved; None: of none is it known."""
        times = [stop.gpu_time for stop in self.stops if stop.gpu_time is not None]
        return sum(times, timedelta()) if times else None

    @property
    def saved(self) -> Money | None:
        """Returns the cost that is expected to be saved; None: of none is it known."""
        amounts = [stop.saved for stop in self.stops if stop.saved is not None]
        return sum(amounts, ZERO) if amounts else None


@dataclass(frozen=True, slots=True)
class SweepOverview:
    """All about one sweep. `better` is "lower" or "higher", or "" where its members name no metric.

    The members with the best values come first.
    """

    row: SweepRow
    parameters: Sequence[str]
    members: Sequence[MemberRow]
    better: str
    metric_pattern: str
    halving: HalvingRow | None = None
    result: SweepResult | None = None


def sweeps_page(
    connection: Connection,
    accrual: Accrual,
    filters: RowFilters,
    after: tuple[datetime, str] | None,
    limit: int,
) -> list[SweepRow]:
    """The newest first; `after` is the creation and the id of the last one that was shown."""
    ids = [sweep.id for sweep in sweep_rows.page(connection, filters, after, limit)]
    views = gather.views(connection, accrual, ids)
    return [_row(views[sweep_id]) for sweep_id in ids]


def sweep_detail(connection: Connection, accrual: Accrual, sweep_id: str) -> SweepOverview | None:
    """Reads a sweep. None: there is no such sweep."""
    view = gather.views(connection, accrual, [sweep_id]).get(sweep_id)
    if view is None:
        return None
    members = [one.member for one in view.members]
    every = [job_id for member in members for job_id in member.jobs]
    rows = {row.job.id: row for row in rows_of(connection, accrual, list(job_rows.of_ids(connection, every).values()))}
    first = sweep_rows.new_members(connection, sweep_id, [members[0].number])[0].spec.metric
    better = first.better if first is not None else ""
    lines = with_best([_member(member, rows) for member in members], better)
    winner = winner_of(lines)
    sent = sent_by(connection, winner.row) if winner is not None and winner.row is not None else None
    return SweepOverview(
        row=_row(view),
        parameters=tuple(members[0].parameters),
        members=ranked(lines, better),
        result=result_of(lines, sent),
        better=better,
        metric_pattern=first.pattern if first is not None else "",
        halving=_halving(view),
    )


def _halving(view: SweepView) -> HalvingRow | None:
    sweep = view.sweep
    if sweep.halving is None:
        return None
    stops = [one.member.stop for one in view.members if one.member.stop is not None]
    waits = view.curves.waits if view.curves is not None else ""
    return HalvingRow(sweep.halving, sweep.halving_ended_at, sweep.halving_ended_by, stops, waits)


def _member(member: SweepMember, rows: dict[str, JobRow]) -> MemberRow:
    mine = [rows[job_id] for job_id in member.jobs]
    cost = sum((row.cost for row in mine), start=Priced())
    measured = [row.metric for row in mine if row.metric is not None]  # a later job resumes from the one before
    metric = reduce(SeenMetric.then, measured) if measured else None
    return MemberRow(member, mine[-1] if mine else None, cost, metric)


def _row(view: SweepView) -> SweepRow:
    return SweepRow(
        sweep=view.sweep,
        cost=view.cost,
        members=len(view.members),
        waiting=len(view.waiting),
        open=len(view.open),
        succeeded=len(view.in_state(JobState.SUCCEEDED)),
        failed=len(view.in_state(JobState.FAILED)),
        cancelled=len(view.in_state(JobState.CANCELLED)),
        reserved=view.use.reserved if view.use is not None else None,
    )
