"""Jobs under a limit, stored: one of Ada's runs, and one of Bob's and one of Ada's wait for the only GPU."""

from __future__ import annotations

from datetime import timedelta

from tests.api.rows import NOW
from tests.jobs import job_rows

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.jobs.decide.limits.in_use import LimitedBy, of_vm
from costguard.jobs.decide.limits.queue import Wanted
from costguard.jobs.rows.limits import limit_rows
from costguard.model.attempt import AttemptState
from costguard.model.budget import FleetLimit, LimitPart, Scope
from costguard.model.job import JobState
from costguard.model.money import Money

HOUR = timedelta(hours=1)
ADA, BOB = "ada@lab.example", "bob@lab.example"
ONE_GPU = FleetLimit("gpus", Scope(), gpus=1, dollars_per_hour=Money.of(5))
EACH_OWNER = FleetLimit("each-owner", Scope(), for_each=LimitPart.OWNER, vms=4)
RULES = Rules({}, fleet_limits=(ONE_GPU, EACH_OWNER))


def queue(database: Database) -> None:
    """The first runs since an hour and takes three; the others wait since twenty minutes."""
    with database.write() as connection:
        running = {"name": "first", "state": JobState.RUNNING, "work": 3 * HOUR, "deadline": None, "priority": 7}
        job_rows.added(connection, "ja", created_at=NOW - 2 * HOUR, **running)
        job_rows.attempt(connection, "ja", state=AttemptState.RUNNING, gce_id="1", made_at=NOW - HOUR)
        waits = [("jb", ADA, "second", 0), ("jc", BOB, "third", 7)]
        for job_id, owner, name, priority in waits:
            more = {"owner": owner, "name": name, "priority": priority, "work": HOUR, "deadline": None}
            job_rows.added(connection, job_id, created_at=NOW - HOUR, **more)
        one = of_vm(1, Money.of("0.25"))
        wanted = [
            Wanted(job_id, name, LimitedBy("lab", "t4", owner), one, 1, 1, NOW, NOW - HOUR / 3, takes=HOUR)
            for job_id, owner, name, _ in waits
        ]
        limit_rows.save(connection, wanted, ())
