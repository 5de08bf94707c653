"""An organisation's 500 projects: fifty refuse, five hang, eighty have a zone that cannot be reached; 4,000 VMs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any

from fastapi import FastAPI
from sqlalchemy import insert
from tests.api import rows
from tests.api.conftest import Standstill
from tests.api.rows import NOW, T4
from tests.authenticators import signed_in
from tests.browser import site
from tests.loose import asked_of
from tests.within import keep_rates

from costguard.db import lease, tables
from costguard.db.transaction import Database
from costguard.ledger.owner import OwnerRules
from costguard.model.access import Role
from costguard.model.observation import LooseKind, LooseListing, LooseThing, UnreadList
from costguard.spend.loose.things import LooseThings

TEAMS = ("vision", "speech", "robotics", "search", "genomics", "weather", "markets", "chemistry", "language", "maps")
PROJECTS = [f"acme-{TEAMS[number % 10]}-{('dev', 'prod', 'batch')[number % 3]}-{number:03}" for number in range(500)]
REFUSING, LATE, PARTLY = PROJECTS[:50], PROJECTS[50:55], PROJECTS[60:140]
VMS_EACH = 8
_DENIED = "Listing instances of project {0}: Compute Engine answered 403: Required 'compute.instances.list' permission."
_AWAY = "Google could not reach europe-west4-a."


@dataclass(frozen=True)
class Organisation:
    app: FastAPI
    things: LooseThings


def tell(database: Database) -> Organisation:
    with database.write() as connection:
        rows.prices(connection)
        for project in PROJECTS:
            rows.project(connection, project, _unread(project), **_ages(project))
        vms, lifetimes = [], []
        for number, project in enumerate(PROJECTS[50:]):
            for one in range(VMS_EACH):
                row_id = 100_000 + number * VMS_EACH + one
                vm, lifetime = _vm(row_id, project, one)
                vms.append(vm)
                lifetimes.append(lifetime)
        connection.execute(insert(tables.instances), vms)
        connection.execute(insert(tables.lifetimes), lifetimes)
        for number, project in enumerate(PROJECTS):
            rows.event(connection, f"look-{number}", NOW - number * timedelta(minutes=1), project=project)
        for number, project in enumerate(PROJECTS[50:]):
            rows.day(connection, (NOW - timedelta(days=1)).date(), project=project, gpu_nanos=(number + 1) * 10**9)
        keep_rates(connection, NOW)
    lease.acquire(database, "daemon", "guard-1", timedelta(hours=1))
    things = asked_of(Standstill(), _loose, PROJECTS, OwnerRules(domain="lab.example"))
    return Organisation(site.app_of(database, signed_in(Role.ADMIN, site.ADMIN), loose=things), things)


def _unread(project: str) -> list[dict[str, str]]:
    if project in REFUSING:
        return [{"scope": "project", "code": "forbidden", "reason": _DENIED.format(project)}]
    if project in PARTLY:
        return [{"scope": "europe-west4-a", "code": "unreachable", "reason": _AWAY}]
    return []


def _ages(project: str) -> dict[str, Any]:
    age = timedelta(minutes=40) if project in LATE else timedelta(seconds=PROJECTS.index(project) % 60)
    return {"last_complete_at": None if project in REFUSING else NOW - age, "last_tried_at": NOW - age}


def _vm(row_id: int, project: str, one: int) -> tuple[dict[str, Any], dict[str, Any]]:
    owner, since = f"user-{row_id % 37:02}@lab.example", NOW - timedelta(minutes=row_id % 3000)
    shared = {"project": project, "zone": "us-central1-a", **T4, "provisioning_model": ("standard", "spot")[one % 2]}
    shared |= {"preset": "t4", "owner": owner, "job": ""}
    name = f"train-{project.split('-')[1]}-{row_id % 10_000:04}"
    vm = {
        "id": row_id, "gce_id": str(9_000_000 + row_id), "name": name, "status": "running", "created_at": since,
        "labels": {}, "owner_source": "label", "created_by": owner, "fingerprint": "f", "first_seen_at": since,
    }  # fmt: skip
    return vm | shared, {"instance_id": row_id, "started_at": since} | shared


def _loose(project: str) -> LooseListing:
    if project in REFUSING:
        kinds = (LooseKind.DISK, LooseKind.ADDRESS, LooseKind.SNAPSHOT, LooseKind.RESERVATION)
        why = f"Listing disks of project {project}: Compute Engine answered 403: Permission is missing."
        return LooseListing(
            project, unread=tuple(UnreadList(project, kind, why, "compute.disks.list") for kind in kinds)
        )
    made = NOW - timedelta(days=40)
    disks = tuple(
        LooseThing(
            LooseKind.DISK, project, "zones/us-central1-a", f"scratch-{number}", "pd-standard disk, 500 GiB", made,
            unused_since=made, labels={"owner": "ana"}, resource="disk:pd-standard", region="us-central1",
            quantity=Fraction(500),
        )
        for number in range(3)
    )  # fmt: skip
    reason = f"Listing images of project {project}: Compute Engine answered 403: Permission is missing."
    unread = (UnreadList(project, LooseKind.IMAGE, reason, "compute.images.list"),) if project in PARTLY else ()
    return LooseListing(project, disks, unread=unread)
