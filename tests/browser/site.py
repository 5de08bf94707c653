"""A fleet, jobs, spend, prices and budgets with something of everything, and the application over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from fastapi import FastAPI
from tests.api import rows
from tests.api.conftest import Standstill
from tests.api.rows import H100, NOW
from tests.authenticators import signed_in
from tests.bill import stored_bill
from tests.jobs import job_service
from tests.loose import loose_things
from tests.pages import job_story
from tests.reminders import reminder_rows
from tests.schedules import schedule_story
from tests.sweeps import sweep_story
from tests.within import keep_rates

from costguard.access import sessions
from costguard.access.rules import Rules, by_name
from costguard.access.sessions import Session
from costguard.api.app import create_app
from costguard.api.deps import DaemonStatus, Deps
from costguard.db import lease
from costguard.db.transaction import Database
from costguard.jobs.listing.output import OpenFolder
from costguard.ledger import prices as price_rows
from costguard.messages.slack_health import OutboxTrouble
from costguard.model.access import Role, Via
from costguard.model.budget import AtLimit, Budget, FleetLimit, LimitPart, Period, Scope
from costguard.model.delivery.person import AccountLookup, Person
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import Recipe
from costguard.model.money import Money
from costguard.model.ports import Archives
from costguard.model.preset import Match, Preset
from costguard.model.price import Price, PriceKey, RefusedPrice, Unit
from costguard.model.reminder import Enforcement, ReminderRule
from costguard.pages.app import add_pages
from costguard.reminders import slack_accounts
from costguard.spend.loose.things import LooseThings
from costguard.web.authentication import RequestAuthenticator

HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)
ADMIN = "ada@lab.example"
A100 = {
    "machine_type": "a2-highgpu-1g",
    "vcpus": 12,
    "memory_mib": 85 * 1024,
    "gpu_type": "nvidia-tesla-a100",
    "gpu_count": 1,
    "local_ssd_gib": 0,
}
_RATES = {
    ("a2:core", "standard", "h"): 31_611_000,
    ("a2:ram", "standard", "GiBy.h"): 4_237_000,
    ("gpu:nvidia-tesla-a100", "standard", "h"): 2_933_908_000,
    ("a2:core", "spot", "h"): 9_483_000,
    ("a2:ram", "spot", "GiBy.h"): 1_271_000,
    ("gpu:nvidia-tesla-a100", "spot", "h"): 1_173_563_000,
}
_FLEET: Mapping[str, tuple[dict[str, Any], dict[str, Any], timedelta]] = {
    "debug-ada": ({}, {}, 31 * HOUR),
    "train-resnet-50-on-imagenet": ({**A100, "preset": "a100"}, {**A100, "preset": "a100"}, 5 * HOUR),
    "sweep-bob": (
        {
            **A100,
            "preset": "a100",
            "provisioning_model": "spot",
            "owner": "bob@lab.example",
            "labels": {"experiment": "learning-rate-sweep-of-november"},
        },
        {**A100, "preset": "a100", "provisioning_model": "spot", "owner": "bob@lab.example"},
        14 * HOUR,
    ),
    "llm-finetune": (
        {**H100, "preset": "multi-gpu", "owner": "", "owner_source": ""},
        {**H100, "preset": "multi-gpu", "owner": ""},
        3 * HOUR,
    ),
    "notebook": (
        {"owner": "chi@lab.example", "labels": {"experiment": "warm-up", "cost-center": ""}},
        {"owner": "chi@lab.example"},
        9 * HOUR,
    ),
}
RULES = Rules(
    by_name(
        [
            replace(
                job_service.PRESETS[0], match=Match(gpu_types=frozenset({"nvidia-tesla-t4"})), limit=8 * HOUR,
                reminders=ReminderRule(enforcement=Enforcement.STOP),
            ),
            Preset(
                "a100", Match(gpu_types=frozenset({"nvidia-tesla-a100"})), 12 * HOUR, "regular training",
                launch=Recipe("a2-highgpu-1g", ("us-central1-a", "us-central1-f"), "projects/ml/i", 24 * HOUR),
            ),
            Preset("multi-gpu", Match(gpu_count_min=2), 24 * HOUR, "large models"),
            Preset("other", Match(), None),
        ]
    ),
    fleet_limits=(FleetLimit("gpus-each", Scope(), for_each=LimitPart.OWNER, gpus=64),),
    budgets=(
        Budget("everything", Scope(), Money.of(1500), Period.MONTH, (50, 80, 100), contact="cfo@lab.example"),
        Budget("vision", Scope(preset="t4"), Money.of(60), Period.WEEK, at_limit=AtLimit.STOP_SPOT),
        Budget("bob", Scope(owner="bob@lab.example"), Money.of(40), Period.DAY),
    ),
    spend_labels=("experiment", "cost-center"),
    channel="#gpu-costs",
    jobs=job_service.RULES.jobs,
)  # fmt: skip


@dataclass(frozen=True)
class SiteStory:
    """The addresses of every page, by a name that a picture can have."""

    app: FastAPI
    pages: Mapping[str, str]


def tell(database: Database, authenticator: RequestAuthenticator | None = None) -> SiteStory:
    jobs = job_story.tell(database)
    vm = _fleet(database)
    _spend(database)
    _prices(database)
    stored_bill.tell(database)
    _sessions(database)
    sweep_story.tell(job_service.JobSetup(database))
    schedule_story.tell(job_service.JobSetup(database))
    lease.acquire(database, "daemon", "guard-1", HOUR)
    pages = {
        "api": "/api/docs",
        "api-group": "/api/docs/tokens",
        "fleet": "/",
        "fleet-filtered": "/?preset=a100&status=running",
        "fleet-nothing": "/?owner=nobody@lab.example",
        "vm": vm,
        "ask-stop": f"{vm}/stop",
        "ask-keep": f"{vm}/keep",
        "jobs": "/jobs",
        "job": jobs["resnet"],
        "job-failed": jobs["gan"],
        "job-profile": f"{jobs['resnet']}/profile",
        "cancel": f"{jobs['resnet']}/cancel",
        "sweeps": "/sweeps",
        "sweep": f"/sweeps/{sweep_story.ID}",
        "schedules": "/schedules",
        "schedule": f"/schedules/{schedule_story.ID}",
        "launch": "/launch?preset=t4",
        "launch-more": "/launch?preset=t4&image=lab/train:7",
        "spend": "/spend?from=2026-10-20&to=2026-11-20",
        "spend-owner": "/spend?group_by=owner",
        "spend-label": "/spend?group_by=label:experiment",
        "spend-of-label": "/spend?label=experiment%3Dwarm-up",
        "savings": "/savings",
        "executions": "/executions",
        "loose": "/loose",
        "bill": "/bill",
        "budgets": "/budgets",
        "limits": "/limits",
        "presets": "/presets",
        "prices": "/prices",
        "audit-log": "/events",
        "health": "/health",
        "access": "/tokens",
    }
    return SiteStory(app_of(database, authenticator or signed_in(Role.ADMIN, ADMIN)), pages)


def empty(database: Database) -> FastAPI:
    return app_of(database, signed_in(Role.ADMIN, ADMIN))


def _fleet(database: Database) -> str:
    with database.write() as connection:
        rows.prices(connection, _RATES)
        unread = {"scope": "europe-west4-a", "code": "unreachable", "reason": "Google could not reach europe-west4-a."}
        rows.project(connection, "research", [unread])
        for name in ("ada", "bob", "chi"):
            person = Person(f"U{name.upper()}", f"{name}@lab.example", name.title(), "Europe/Berlin")
            slack_accounts.save(connection, AccountLookup(f"{name}@lab.example", person, NOW, f"D{name.upper()}"))
        ids = {}
        for number, (name, (columns, run, age)) in enumerate(_FLEET.items()):
            vm = rows.instance(connection, name, gce_id=str(9_500 + number), **{"created_at": NOW - age, **columns})
            lifetime = rows.lifetime(connection, vm, NOW - age, **run)
            rows.storage(
                connection, vm, NOW - age, owner=columns.get("owner", ADMIN), preset=columns.get("preset", "t4")
            )
            ids[name] = (vm, lifetime, f"run:{vm}:{lifetime}")
        vm, _, subject = ids["debug-ada"]
        rows.measured(connection, vm, NOW - 31 * HOUR)
        for stage, hours in ((0, 23), (1, 19), (2, 15)):
            sent = {"intended_at": NOW - hours * HOUR, "accepted_at": NOW - hours * HOUR + MINUTE}
            key = f"reminder/{subject}/0/{stage}/owner"
            reminder_rows.message(connection, key, subject=subject, instance_id=vm, stage=stage, **sent)
        kept, _, its = ids["notebook"]
        reminder_rows.keep(connection, kept, its, NOW + 20 * HOUR, reason="the demo is tomorrow")
        since = NOW - 4 * DAY
        resting = rows.instance(connection, "at-rest", gce_id="9600", status="stopped", created_at=since)
        rows.lifetime(connection, resting, since, ended_at=since + HOUR, end_reason="stopped", charged_to=since + HOUR)
        rows.storage(connection, resting, since)
        for number, name in enumerate(_FLEET):
            at = NOW - number * 3 * HOUR
            rows.event(connection, name, at, text=f"{name} started.", gce_id=str(9_500 + number), name=name)
    return "/vm/lab/9500"


def _spend(database: Database) -> None:
    """Five weeks of three people on three presets, less at weekends, a fifth of it on Spot."""
    with database.write() as connection:
        for back in range(1, 36):
            day = (NOW - back * DAY).date()
            share = 3 if day.weekday() > 4 else 10
            for number, (owner, preset) in enumerate((("ada", "t4"), ("bob", "a100"), ("chi", "multi-gpu"))):
                for model, part in (("standard", 4), ("spot", 1)):
                    rows.day(
                        connection, day, owner=f"{owner}@lab.example", preset=preset, provisioning_model=model,
                        gpu_nanos=(number + 1) * share * part * (300_000_000 + 7_000_000 * (back % 5)),
                        machine_nanos=share * part * 60_000_000, storage_nanos=40_000_000, seconds=3600 * share * part,
                    )  # fmt: skip


def _prices(database: Database) -> None:
    key = PriceKey("gpu:nvidia-tesla-a100", "us-central1", ProvisioningModel.SPOT)
    wild = Price(key, Unit.HOUR, 9_930_000_000, NOW - HOUR, "catalog")
    with database.write() as connection:
        price_rows.refuse(connection, [RefusedPrice(wild, "$9.93 is not below the on-demand price.")], NOW - HOUR)
        rows.event(connection, "refused", NOW - HOUR, kind="PriceRefused", text="A price was refused.", project="")
        keep_rates(connection, NOW)


def _sessions(database: Database) -> None:
    with database.write() as connection:
        for number, (name, role) in enumerate((("ada", Role.ADMIN), ("ada", Role.ADMIN), ("bob", Role.OPERATOR))):
            at = NOW - (number + 1) * HOUR
            session = Session(
                f"s{number}", f"{name}@lab.example", Via.LINK, role, f"10.0.0.{number + 7}", at, at + 12 * HOUR
            )
            sessions.add(connection, session, f"digest {number}")
            sessions.used(connection, session.id, NOW - number * MINUTE)


def with_output(database: Database, output: Archives) -> FastAPI:
    """Jobs whose output is stored."""
    job_story.tell(database)
    return app_of(database, signed_in(Role.ADMIN, ADMIN), lambda _: output)


def app_of(
    database: Database,
    authenticator: RequestAuthenticator,
    output: OpenFolder | None = None,
    loose: LooseThings | None = None,
) -> FastAPI:
    """The application over this ledger."""
    deps = Deps(
        database=database,
        clock=Standstill(),
        rules=RULES,
        authenticator=authenticator,
        version="1.2.3",
        stale_after=timedelta(minutes=10),
        status=lambda: DaemonStatus(last_pass_at=NOW - MINUTE),
        holder="guard-1",
        outbox_trouble=lambda: OutboxTrouble(),
        jobs=job_service.JobSetup(database, RULES).it,
        output=output,
        loose=loose or loose_things(Standstill()),
    )
    app = create_app(deps)
    add_pages(app, deps)
    return app
