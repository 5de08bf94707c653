"""The sweeps' turn: launch the members that may run now, and conclude sweeps that are over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import structlog
from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.isolation import Isolated
from costguard.jobs.rows import job_rows
from costguard.jobs.rows.lineage import lineage_rows
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.model.job import Job, JobState
from costguard.model.ports import Clock
from costguard.sweeps import gather, sweep_events, sweep_rows
from costguard.sweeps.cancelling import cancel_jobs
from costguard.sweeps.decide import SweepDecision, SweepView, decide
from costguard.sweeps.stopping import stop_losers

_QUEUED = "Member {} of sweep {}; a zone for its VM is chosen within seconds."

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class SweepReport:
    """The result of one turn."""

    open: int = 0
    launched: int = 0
    stopped: int = 0
    settled: int = 0
    troubles: list[str] = field(default_factory=list)


class SweepsTurn:
    """Runs turns, by the holder of the lease. It remembers nothing: each starts from what is stored.

    What follows from a decision is written in the transaction that the decision was made in, so that a member is
    launched once whenever the process ends.
    """

    def __init__(self, database: Database, clock: Clock, new_id: Callable[[], str]) -> None:
        self._database = database
        self._clock = clock
        self._new_id = new_id

    def run(self, fence: Lease | None = None) -> SweepReport:
        """Raises LeaseLost when another daemon took over, and StoreError when the database failed."""
        now = self._clock.now()
        with self._database.read() as connection:
            ids = sweep_rows.open_ids(connection)
            accrual = accrual_at(connection, now) if ids else None
            views = {} if accrual is None else gather.views(connection, accrual, ids)
        report = SweepReport(open=len(ids))
        for sweep_id, view in views.items():
            with Isolated("sweep_not_advanced", sweep=sweep_id) as failure:
                if accrual is not None and _changes(view, decide(view)):
                    self._advance(sweep_id, accrual, fence, report)
            if failure.error is not None:
                report.troubles.append(f"Sweep {sweep_id} could not be advanced ({failure.words}).")
        if report.launched or report.stopped or report.settled or report.troubles:
            log.info(
                "sweeps", open=report.open, launched=report.launched, stopped=report.stopped, settled=report.settled
            )
        return report

    def _advance(self, sweep_id: str, accrual: Accrual, fence: Lease | None, report: SweepReport) -> None:
        """Decides again on what is stored now: a cancel, or a resume, may have come meanwhile."""
        now = accrual.now
        launched = settled = stopped = 0
        with self._database.write(fence) as connection:
            view = gather.views(connection, accrual, [sweep_id])[sweep_id]
            decision, sweep = decide(view), view.sweep
            cancel_jobs(connection, sweep, decision.cancel, now)
            stopped = stop_losers(connection, view, decision.stop, now)
            launched = self._launch(connection, view, decision, accrual)
            if (sweep.state, sweep.reason) != (decision.state, decision.reason):
                sweep_rows.set_state(connection, sweep_id, decision.state, decision.reason, now)
            if decision.state.is_over:
                event = sweep_events.over(sweep, decision.state, decision.reason, view.cost, now)
                settled = audit_log.append(connection, [event], now)
        report.launched += launched
        report.stopped += stopped
        report.settled += bool(settled)

    def _launch(self, connection: Connection, view: SweepView, decision: SweepDecision, accrual: Accrual) -> int:
        sweep, now = view.sweep, accrual.now
        members = {one.member.number: one.member for one in view.members}
        for new in sweep_rows.new_members(connection, sweep.id, decision.launch):
            member = members[new.number]
            job = Job(
                id=self._new_id(),
                spec=replace(new.spec, sweep=sweep.id),
                recipe=new.recipe,
                state=JobState.QUEUED,
                reason=_QUEUED.format(new.number, sweep.title),
                created_at=now,
                via=sweep.via,
            )
            job_rows.add(connection, job, None, "")
            lineage_rows.record(connection, job, None)
            sweep_rows.add_job(connection, sweep.id, new.number, member.tries, job.id)
            audit_log.append(connection, [sweep_events.launched(sweep, member, job, now)], now)
        return len(decision.launch)


def _changes(view: SweepView, decision: SweepDecision) -> bool:
    is_same = (view.sweep.state, view.sweep.reason) == (decision.state, decision.reason)
    return bool(decision.launch or decision.cancel or decision.stop or not is_same)
