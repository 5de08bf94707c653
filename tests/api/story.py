"""A little of everything in one ledger, and an API over it: for examples, and for asking it anything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from fastapi import FastAPI
from sqlalchemy import insert
from tests.api import rows
from tests.api.conftest import deps_of
from tests.api.rows import NOW
from tests.authenticators import authenticator_of, begin_session, make_principal
from tests.bill import stored_bill
from tests.fakes import HandClock
from tests.jobs.archives import MemoryArchives
from tests.jobs.job_service import JobSetup
from tests.loose import loose_things
from tests.pages import job_story
from tests.reminders import reminder_rows
from tests.schedules import schedule_story
from tests.sweeps import sweep_story

from costguard.access.authentication import Authenticator
from costguard.access.rules import Access, Rules
from costguard.access.sessions import Sessions
from costguard.access.tokens import NewToken, TokenService
from costguard.api.app import create_app
from costguard.db import lease, tables
from costguard.db.transaction import Database
from costguard.jobs.reports.agent_events import AgentEvents, AgentTokens
from costguard.jobs.submit.code import CodeArchives
from costguard.model.access import Role, Via
from costguard.model.budget import Budget, FleetLimit, Period, Scope
from costguard.model.money import Money
from costguard.model.reminder import Team

ADA, ROOT, VIC = "ada@lab.example", "root@lab.example", "vic@lab.example"
MASTER = "the master's token"
AGENTS = AgentTokens(b"k" * 32)
HOUR = timedelta(hours=1)
REFUSAL = {
    "resource": "n1:core",
    "region": "us-central1",
    "provisioning_model": "spot",
    "unit": "h",
    "rate_nanos": 0,
    "in_force_from": NOW,
    "source": "catalog",
    "reason": "It is zero.",
    "refused_at": NOW,
}


@dataclass(frozen=True)
class Story:
    """`rules` are those of the job service, with people in them."""

    app: FastAPI
    office: JobSetup
    authenticator: Authenticator
    tokens: TokenService

    def token(self, role: Role, address: str) -> str:
        """The secret of one that may all that its role may."""
        _, secret = self.tokens.make(NewToken(role.value, owner=address, role=role), make_principal(), grants=True)
        assert secret is not None
        return secret


def make_story(database: Database) -> Story:
    job_story.tell(database)
    lease.acquire(database, "daemon", "guard-1:4242", 240 * HOUR)
    with database.write() as connection:
        trainer = rows.instance(connection, "trainer-3", gce_id="4711", labels={"experiment": "bert"})
        run = rows.lifetime(connection, trainer, NOW - 9 * HOUR)
        rows.measured(connection, trainer, NOW - 9 * HOUR)
        rows.storage(connection, trainer, NOW - 9 * HOUR)
        notebook = rows.instance(connection, "notebook", gce_id="4712", status="stopped", owner="")
        slept = rows.lifetime(
            connection, notebook, NOW - 60 * HOUR, ended_at=NOW - 50 * HOUR, end_reason="stopped", ended_by=ADA
        )
        rows.storage(connection, notebook, NOW - 60 * HOUR)
        rows.lifetime(
            connection, rows.instance(connection, "eval", gce_id="4713", **rows.H100), NOW - HOUR, **rows.H100
        )
        desk = rows.instance(connection, "desk", gce_id="4714", preset="other", gpu_type=None, gpu_count=0)
        rows.lifetime(connection, desk, NOW - 5 * HOUR, preset="other", gpu_type=None, gpu_count=0)
        run_columns = {"subject": f"run:{trainer}:{run}", "instance_id": trainer}
        reminder_rows.message(
            connection, f"reminder/run:{trainer}:{run}/0/0/owner", **run_columns, accepted_at=NOW - HOUR
        )
        reminder_rows.stop(connection, notebook, slept, NOW - 50 * HOUR)
        rows.event(connection, "started", NOW - 9 * HOUR, project="lab", gce_id="4711", name="trainer-3")
        rows.day(connection, NOW.date() - timedelta(days=1))
        connection.execute(insert(tables.price_refusals), REFUSAL)
    office = JobSetup(database)
    office.rules = _with_people(office.rules)
    sweep_story.tell(office)
    schedule_story.tell(office)
    stored_bill.tell(database)
    plain = deps_of(database)
    authenticator = authenticator_of(database, plain.clock, office.rules.access, MASTER)
    code = CodeArchives(MemoryArchives(), database, HandClock(NOW))
    deps = replace(
        plain,
        authenticator=authenticator,
        rules=office.rules,
        jobs=office.it,
        sweeps=office.sweeps,
        schedules=office.schedules,
        loose=loose_things(plain.clock),
        agent_events=AgentEvents(database, plain.clock, AGENTS, lambda: None),
        is_stopping=lambda: True,
        code=code,
    )
    ids = iter(range(1000))
    sessions = Sessions(database, plain.clock, 12 * HOUR, lambda: f"{next(ids):016x}")
    begin_session(database, sessions, ADA, Via.OIDC, client="10.0.0.7")
    ids = iter(range(1000))
    tokens = TokenService(database, plain.clock, lambda: f"{next(ids):010x}")
    return Story(create_app(deps), office, authenticator, tokens)


def _with_people(rules: Rules) -> Rules:
    return replace(
        rules,
        channel="#gpus",
        teams=(Team("vision", members=frozenset({ADA})),),
        access=Access(viewers=frozenset({VIC}), operators=frozenset({ADA}), admins=frozenset({ROOT})),
        budgets=(Budget("all", Scope(), Money.of("5000"), Period.MONTH, contact=ROOT),),
        fleet_limits=(FleetLimit("gpus", Scope(), gpus=64, dollars_per_hour=Money.of(400)),),
    )
