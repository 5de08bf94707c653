"""Runs two replicas for so many minutes on one database, kills one each minute, and judges what they did."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import func, select
from tests.scenario.books import assert_consistent
from tests.shards import judge, sides
from tests.shards.cloud import SimulatedCloud, simulated_cloud
from tests.shards.ledger import held_by_vm, open_entries, spent_by_vm
from tests.shards.people import People
from tests.shards.replicas import Pair, pair

from costguard.clock import SystemClock
from costguard.db.tables import messages, stops
from costguard.db.transaction import Database
from costguard_sandbox.gce.rights import ACCOUNT

PROJECTS = 40
_FORGOTTEN = 12
_KILLED_EVERY_S = 60.0
_PATIENCE_S = 600.0


@dataclass
class Verdict:
    """Sentences: `unwatched` about projects not looked at in time, `differing` about VMs whose bill and ledger are not
    the same, by however little, `wrong` about all else; and what the run had in it, by what people call it.
    """

    unwatched: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    figures: dict[str, object] = field(default_factory=dict)


def run(folder: Path, database_url: str, minutes: float, seed: int) -> Verdict:
    """Raises TimeoutError where the replicas do not come up, or do not come to rest at the end."""
    folder.mkdir()
    projects = [f"shard-project-{number:02}" for number in range(PROJECTS)]
    with (
        closing(Database.open(database_url)) as database,
        simulated_cloud(folder, projects, _FORGOTTEN) as cloud,
        pair(folder, cloud, projects, database_url, seed) as both,
    ):
        _until(lambda: both.are_ready, "both replicas hold projects")
        people = People(cloud, both, folder, seed)
        began = _now()
        _watch(both, people, minutes)
        ended = _now()
        _come_to_rest(cloud, both, people, database)
        verdict = Verdict()
        _judge_looks(verdict, cloud, both, began, ended)
        _judge_deeds(verdict, cloud, people, database, projects)
        verdict.figures |= dict(sorted(people.happened.items()))
        return verdict


def _watch(both: Pair, people: People, minutes: float) -> None:
    """Kills a replica each minute, but for the last half one, in which nothing needs to be taken over any more."""
    stop, ends = threading.Event(), time.monotonic() + minutes * 60
    people.start()
    try:
        while (left := ends - time.monotonic()) > _KILLED_EVERY_S / 2:
            began = time.monotonic()
            stop.wait(min(left, _KILLED_EVERY_S * both.chance.uniform(0.3, 0.7)))
            both.kill(stop)
            stop.wait(max(0.0, min(began + _KILLED_EVERY_S, ends) - time.monotonic()))
        stop.wait(max(0.0, ends - time.monotonic()))
    finally:
        people.end()


def _come_to_rest(cloud: SimulatedCloud, both: Pair, people: People, database: Database) -> None:
    """Lets jobs end, has all VMs deleted, and waits until the ledger knows of it and every message is sent."""
    _until(lambda: both.are_ready, "both replicas hold projects again")
    over = ("succeeded", "failed", "cancelled")
    _until(lambda: all(people.ask("GET", f"jobs/{job}")["job"]["state"] in over for job in people.jobs), "jobs end")
    _until(lambda: _left(cloud, both, people) == 0, "all VMs are gone")
    _until(lambda: open_entries(database) == 0, "the ledger has seen everything end")


def _left(cloud: SimulatedCloud, both: Pair, people: People) -> int:
    """Counts the VMs that are there. People delete those that were stopping at the look before, too."""
    people.leave()
    return sum(len(cloud.vms(project)) for project in both.projects)


def _judge_looks(verdict: Verdict, cloud: SimulatedCloud, both: Pair, began: datetime, ended: datetime) -> None:
    requests_made = cloud.requests()
    gaps = judge.gaps(requests_made, both.kills, both.projects, began, ended)
    verdict.unwatched += judge.unwatched(gaps)
    verdict.wrong += judge.asked_twice(requests_made)
    after = [gap.length.total_seconds() for gap in gaps if gap.is_after_kill]
    others = [gap.length.total_seconds() for gap in gaps if not gap.is_after_kill]
    of_costguard = [one for one in requests_made if not one.user]
    verdict.figures |= {
        "kills": f"{len(both.kills)}, {both.killed_acting} of them of the replica that acted",
        "looks at projects": sum(map(len, judge.looks(requests_made, both.kills).values())),
        "requests of Costguard's to the cloud": len(of_costguard),
        "longest time from a kill to the next look at a project": f"{max(after, default=0.0):.1f} s",
        "its median over all projects and kills": f"{median(after) if after else 0.0:.1f} s",
        "longest other time between two looks at a project": f"{max(others, default=0.0):.1f} s",
    }


def _judge_deeds(
    verdict: Verdict, cloud: SimulatedCloud, people: People, database: Database, projects: Sequence[str]
) -> None:
    done = [operation for project in projects for operation in cloud.operations(project)]
    keys = judge.posted(cloud.messages())
    with database.read() as connection:
        assert_consistent(connection)
        status = dict(connection.execute(select(messages.c.key, messages.c.status)).tuples().all())
        by_rule = connection.execute(select(func.count()).where(stops.c.request_id.is_(None))).scalar_one()
    verdict.wrong += judge.done_twice(done, ACCOUNT)
    verdict.wrong += judge.said_wrongly(keys, status)
    verdict.wrong += judge.jobs_gone_wrong(_jobs(people), done, people.taken_back)
    mine = [one for one in done if one["user"] == ACCOUNT]
    stopped = {one["targetId"] for one in mine if one["operationType"] == "stop"}
    verdict.wrong += [f"VM {vm} was to be stopped, and was not" for vm in people.stops if vm not in stopped]
    billed, held = cloud.billed(done), held_by_vm(database)
    verdict.differing += sides.differing(billed, held)
    bill, spent = {gce_id: side.nanos for gce_id, side in billed.items()}, spent_by_vm(database)
    verdict.wrong += judge.differences(bill, spent)
    verdict.figures |= {
        "operations of Costguard's": dict(sorted(Counter(one["operationType"] for one in mine).items())),
        "stops by rule": by_rule,
        "messages in Slack": sum(keys.values()),
        "reminders among them": sum(count for key, count in keys.items() if key.startswith("reminder/")),
        "VMs billed": sum(nanos > 0 for nanos in bill.values()),
        "the bill / the ledger": f"${sum(bill.values()) / 1e9:.6f} / ${sum(spent.values()) / 1e9:.6f}",
    }


def _jobs(people: People) -> list[dict[str, Any]]:
    return [people.ask("GET", f"jobs/{job}") for job in people.jobs]


def _until(holds: Callable[[], bool], what: str) -> None:
    ends, pause = time.monotonic() + _PATIENCE_S, threading.Event()
    while not holds():
        if time.monotonic() > ends:
            raise TimeoutError(f"waited {_PATIENCE_S:.0f} s in vain until {what}")
        pause.wait(1)


def _now() -> datetime:
    return SystemClock().now()
