"""Jobs, built from settings: what advances them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from costguard.access import signing
from costguard.access.rules import Rules
from costguard.agent.bundle import bundle
from costguard.daemon import restoring
from costguard.db.transaction import Database
from costguard.gce.boot import metadata_items
from costguard.jobs.agent_events import KEY_NAME, AgentTokens
from costguard.jobs.budget_holds import BudgetHolds
from costguard.jobs.checkpoint_watch import CheckpointWatch
from costguard.jobs.turn import JobsTurn
from costguard.jobs.vm_request import VmMaker
from costguard.model.ports import Checkpoints, Clock

if TYPE_CHECKING:
    from costguard.gce.client import ComputeCloud
    from costguard.settings import Settings


@dataclass(frozen=True, slots=True)
class Jobs:
    """What advances jobs."""

    turn: JobsTurn
    holds: BudgetHolds
    watch: CheckpointWatch


def jobs(
    settings: Settings, rules: Rules, database: Database, cloud: ComputeCloud, checkpoints: Checkpoints, clock: Clock
) -> Jobs:
    now = clock.now()
    with database.write() as connection:
        tokens = AgentTokens(signing.key(connection, KEY_NAME, now))
        guard_id = signing.key(connection, "guard-id", now).hex()[:12]
        restoring.settle_in(connection, now)
    maker = VmMaker(
        guard_id=guard_id,
        guard_url=rules.jobs.guard_url,
        guard_ca=rules.jobs.guard_ca,
        token_of=tokens.of,
        metadata=_metadata,
        owners=settings.owners.rules,
        cancel_grace=rules.jobs.terms.cancel_grace,
        quick_crash=rules.jobs.terms.quick_crash,
        heartbeat=rules.jobs.heartbeat,
    )
    holds = BudgetHolds(database, rules)
    turn = JobsTurn(
        database, clock, cloud.launcher, maker, checkpoints, rules.jobs.terms, cloud.shape, holds, restoring.begin
    )
    watch = CheckpointWatch(database, clock, checkpoints, rules.jobs.terms)
    return Jobs(turn, holds, watch)


@lru_cache(maxsize=1)
def _agent() -> bytes:
    return bundle()


def _metadata(settings: Mapping[str, object], token: str, with_drivers: bool) -> Mapping[str, str]:
    return metadata_items(_agent(), settings, token, with_drivers)
