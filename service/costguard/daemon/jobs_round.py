"""Takes one turn of the sweeps, and of the jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from costguard.db.lease import Lease
from costguard.jobs.act.turn import JobsTurn, TurnReport
from costguard.jobs.reports.checkpoints.checkpoint_watch import CheckpointWatch
from costguard.jobs.rows.limits.budget_holds import BudgetHolds
from costguard.model.ports import Clock
from costguard.sweeps.turn import SweepsTurn


@dataclass(frozen=True, slots=True)
class JobsRound:
    """The parts that advance jobs, and the sweeps that they are members of.

    `notify` stores the messages about what came of it; None: no messages are sent.
    """

    clock: Clock
    sweeps: SweepsTurn
    turn: JobsTurn
    holds: BudgetHolds
    watch: CheckpointWatch
    notify: Callable[[Lease], object] | None = None

    def advance(self, lease: Lease, stop: threading.Event | None) -> TurnReport:
        """Raises LeaseLost when another daemon took over."""
        swept = self.sweeps.run(lease)
        report = self.turn.run(lease, stop)
        report.troubles += swept.troubles
        self.holds.tell(lease, self.clock.now())
        if self.notify is not None and (report.decided or swept.launched or swept.settled):
            self.notify(lease)  # a job's owner need not wait for the next pass
        return report
