"""Jobs, built from settings: what advances them, what takes them in, and what listens to their VMs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from costguard.agent.bundle import bundle
from costguard.engine import restoring
from costguard.engine.jobs.assess import Launching
from costguard.engine.jobs.boot import VmMaker
from costguard.engine.jobs.events import Hearing
from costguard.engine.jobs.holds import BudgetHolds
from costguard.engine.jobs.looks import CheckpointWatch
from costguard.engine.jobs.submit import JobOffice
from costguard.engine.jobs.tokens import KEY_NAME, Tokens
from costguard.engine.jobs.turn import JobsTurn
from costguard.engine.ports import Checkpoints, Clock
from costguard.gce.boot import metadata_items
from costguard.policy.rules import Rules
from costguard.store import signing
from costguard.store.transaction import Database

if TYPE_CHECKING:
    from costguard.gce.client import ComputeCloud
    from costguard.settings import Settings

_ID_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is taken for another
_ID_LENGTH = 7


@dataclass(frozen=True, slots=True)
class Jobs:
    """What advances jobs, and what is needed to take new ones in."""

    turn: JobsTurn
    holds: BudgetHolds
    watch: CheckpointWatch
    tokens: Tokens
    launching: Launching
    checkpoints: Checkpoints


@dataclass(frozen=True, slots=True)
class JobDoors:
    """Where people ask for jobs, and where their VMs tell how it goes."""

    office: JobOffice
    hearing: Hearing


def jobs(
    settings: Settings, rules: Rules, database: Database, cloud: ComputeCloud, checkpoints: Checkpoints, clock: Clock
) -> Jobs:
    now = clock.now()
    with database.write() as connection:
        tokens = Tokens(signing.key(connection, KEY_NAME, now))
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
    turn = JobsTurn(database, clock, cloud.launcher, maker, checkpoints, rules.jobs.terms, cloud.shape, holds)
    watch = CheckpointWatch(database, clock, checkpoints, rules.jobs.terms)
    return Jobs(turn, holds, watch, tokens, Launching(settings.watch.projects, cloud.shape), checkpoints)


def doors(
    built: Jobs,
    rules: Rules,
    database: Database,
    clock: Clock,
    wake: Callable[[], None],
    news: Callable[[], None],
) -> JobDoors:
    """`wake` asks the daemon for a turn, `news` for a look at the VMs as well."""
    office = JobOffice(database, clock, rules, built.launching, built.checkpoints, _new_id, wake)
    return JobDoors(office, Hearing(database, clock, built.tokens, news))


def _new_id() -> str:
    return "j" + "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))


@lru_cache(maxsize=1)
def _agent() -> bytes:
    return bundle()


def _metadata(settings: Mapping[str, object], token: str, with_drivers: bool) -> Mapping[str, str]:
    return metadata_items(_agent(), settings, token, with_drivers)
