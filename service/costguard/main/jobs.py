"""Builds what advances jobs, and the sweeps that they are members of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from costguard.access import signing
from costguard.daemon import restoring
from costguard.daemon.jobs_round import JobsRound
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.deadlines.planner import Planner
from costguard.jobs.act.attempts.vm_request import VmMaker
from costguard.jobs.act.attempts.vm_tools import vm_tools
from costguard.jobs.act.limits.admission import Admission, LaunchBounds
from costguard.jobs.act.planning import Planning
from costguard.jobs.act.turn import JobsTurn, TurnRules, TurnServices
from costguard.jobs.reports.agent_events import KEY_NAME, AgentTokens
from costguard.jobs.reports.checkpoints.checkpoint_watch import CheckpointWatch
from costguard.jobs.reports.listening import Listening
from costguard.jobs.rows.history.zone_advice import RegionAdvice, ZoneAdvice
from costguard.jobs.rows.limits.budget_holds import BudgetHolds
from costguard.main.ids import new_job_id
from costguard.model.ports import Checkpoints, Clock
from costguard.settings import Settings
from costguard.sweeps.gather import common_ceilings
from costguard.sweeps.turn import SweepsTurn

if TYPE_CHECKING:
    from costguard.gce.client import ComputeCloud


def jobs(
    settings: Settings,
    database: Database,
    cloud: ComputeCloud,
    checkpoints: Checkpoints,
    clock: Clock,
    monotonic: Callable[[], float],
    listening: Listening,
    notify: Callable[[Lease], object] | None,
) -> JobsRound:
    """Builds the round that advances jobs. `notify` stores messages about what came of it; None: none are sent."""
    now, rules = clock.now(), settings.rules()
    with database.write() as connection:
        tokens = AgentTokens(signing.key(connection, KEY_NAME, now))
        guard_id = signing.key(connection, "guard-id", now).hex()[:12]
    maker = VmMaker(
        guard_id=guard_id,
        guard_url=rules.jobs.guard_url,
        guard_ca=rules.jobs.guard_ca,
        token_of=tokens.of,
        owners=settings.owners.rules,
        cancel_grace=rules.jobs.terms.cancel_grace,
        quick_crash=rules.jobs.terms.quick_crash,
        heartbeat=rules.jobs.heartbeat,
        logs=rules.jobs.logs,
        profiles=rules.jobs.profiles,
        stage=rules.jobs.stage,
        tools=vm_tools(),
    )
    holds = BudgetHolds(database, rules)
    turn = JobsTurn(
        database,
        clock,
        TurnServices(cloud.launcher, maker, checkpoints, cloud.shape, restoring.begin),
        TurnRules(rules.jobs.terms, holds, LaunchBounds(common_ceilings, Admission(rules.fleet_limits, rules.teams))),
        planning=Planning(
            Planner(explains=True, waiting_saves=rules.jobs.terms.waiting_saves / 100),
            advice=ZoneAdvice(cloud.preemption_rate),
            capacity=RegionAdvice(cloud.capacity_advice, cloud.spot_prices),
        ),
        monotonic=monotonic,
        listening=listening,
    )
    watch = CheckpointWatch(database, clock, checkpoints, rules.jobs.terms)
    return JobsRound(clock, SweepsTurn(database, clock, new_job_id), turn, holds, watch, notify)
