"""VMs that the ledger does not know, for the person who runs the guard: listed, and decided on."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime

from costguard.db import migrate
from costguard.db.transaction import Database
from costguard.errors import Missing
from costguard.ledger import unknown_vms
from costguard.ledger.unknown_vms import UnknownVm, Verdict


def listed(url: str) -> list[UnknownVm]:
    with closing(Database.open(url)) as database:
        migrate.check(database)
        with database.read() as connection:
            return unknown_vms.there(connection)


def decide(url: str, name: str, verdict: str, by: str, now: datetime) -> UnknownVm:
    """Raises Missing unless `PROJECT/NAME` is one of them, and the only one."""
    with closing(Database.open(url)) as database:
        migrate.check(database)
        with database.write() as connection:
            found = [vm for vm in unknown_vms.there(connection) if f"{vm.key.project}/{vm.name}" == name]
            found = found or [vm for vm in unknown_vms.there(connection) if f"{vm.key.project}/{vm.key.gce_id}" == name]
            if len(found) != 1:
                what = "are several unknown VMs" if found else "is no unknown VM"
                raise Missing(f"There {what} {name}.", "Name one that `costguard db unknown` lists.")
            unknown_vms.decide(connection, found[0].key, Verdict(verdict), by, now)
            return found[0]
