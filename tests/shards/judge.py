"""Judges a run of two replicas from what the simulated cloud, Slack's stand-in and the ledger hold. Pure.

**Unwatched.** A project is looked at when its list of instances is asked for and answered. The time from one look to
the next may be 15 s at most; passes begin 10 s apart. Where the replica that looked last was killed in between, the
time counts from the kill to the next look by a process that lives. Requests of the killed replica that arrive between
its kill and its next start are none of a process that lives.

**Twice.** A VM is stopped, deleted or made by one operation of Costguard's account each, and each of its requests to
stop or delete one VM has the same id. A message's key is posted once.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import parse_qs

MOST_UNWATCHED = timedelta(seconds=15)
HALF_A_CENT = 5_000_000  # nano-dollars
_LISTING = re.compile(r"/compute/v1/projects/([^/]+)/aggregated/instances")
_INSTANCE = re.compile(r"/compute/v1/projects/[^/]+/zones/[^/]+/instances/[^/]+(?:/(?:stop|suspend))?")
_CHANGES = ("insert", "stop", "delete")


@dataclass(frozen=True, slots=True)
class Request:
    """A line of the simulated cloud's log. `user` is "" for Costguard's account; `host` tells its replica."""

    at: datetime
    host: str
    user: str
    method: str
    path: str
    query: str
    status: int | None

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Request:
        return cls(**{**line, "at": datetime.fromisoformat(line["at"])})


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL to the replica that calls the cloud at `host`, and when its next process was started."""

    at: datetime
    host: str
    back_at: datetime


class Look(NamedTuple):
    """A look at a project, and the name by which its replica calls the cloud."""

    at: datetime
    host: str


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which a project was not looked at. `is_after_kill`: it begins with a kill, not with a look."""

    project: str
    since: datetime
    until: datetime
    is_after_kill: bool

    @property
    def length(self) -> timedelta:
        return self.until - self.since


def looks(requests: Iterable[Request], kills: Sequence[Kill]) -> dict[str, list[Look]]:
    """Returns each project's looks, in order."""
    by_project = defaultdict[str, list[Look]](list)
    for one in requests:
        listed = _LISTING.fullmatch(one.path)
        if listed is None or one.user or one.status != 200 or "pageToken=" in one.query:
            continue
        if not any(kill.host == one.host and kill.at <= one.at < kill.back_at for kill in kills):
            by_project[listed[1]].append(Look(one.at, one.host))
    return {project: sorted(some) for project, some in by_project.items()}


def gaps(
    requests: Iterable[Request], kills: Sequence[Kill], projects: Iterable[str], began: datetime, ended: datetime
) -> list[Gap]:
    """Lists the times between looks from `began` to `ended`. A project without looks has one gap."""
    by_project = looks(requests, kills)
    listed = list[Gap]()
    for project in projects:
        mine = by_project.get(project, [])
        struck = {kill.at for kill in kills if _watched_by(mine, kill.at) == kill.host}
        marks = {began: False, ended: False} | dict.fromkeys(struck, True) | {look.at: False for look in mine}
        inside = sorted(mark for mark in marks if began <= mark <= ended)
        listed += [Gap(project, since, until, marks[since]) for since, until in pairwise(inside)]
    return listed


def _watched_by(project: Sequence[Look], at: datetime) -> str:
    """Returns the host of the last look before this moment; "" where there was none."""
    return next((look.host for look in reversed(project) if look.at <= at), "")


def unwatched(listed: Iterable[Gap]) -> list[str]:
    """Lists the gaps over 15 s, the longest first."""
    return [
        f"{gap.project} was not looked at for {gap.length.total_seconds():.1f} s from {gap.since:%H:%M:%S.%f}"
        + (", when its replica was killed" if gap.is_after_kill else "")
        for gap in sorted(listed, key=lambda gap: gap.length, reverse=True)
        if gap.length > MOST_UNWATCHED
    ]


def asked_twice(requests: Iterable[Request]) -> Iterator[str]:
    """Yields the VMs that Costguard asked to stop or delete under more than one id."""
    ids = defaultdict[tuple[str, str], set[str]](set)
    for one in requests:
        if one.method in ("POST", "DELETE") and not one.user and _INSTANCE.fullmatch(one.path):
            ids[one.method, one.path].add(parse_qs(one.query).get("requestId", [""])[0])
    for (method, path), request_ids in ids.items():
        if len(request_ids) > 1 or "" in request_ids:
            yield f"{method} {path} was asked for under the ids {sorted(request_ids)}"


def done_twice(operations: Iterable[Mapping[str, Any]], account: str) -> Iterator[str]:
    """Yields the VMs that more than one operation of the account made, stopped or deleted."""
    done = Counter(
        (one["operationType"], one["targetLink"])
        for one in operations
        if one["user"] == account and one["operationType"] in _CHANGES and "error" not in one
    )
    for (kind, target), count in done.items():
        if count > 1:
            yield f"{count} operations {kind} of {target.partition('/projects/')[2]}"


def posted(written: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Counts how often each message's key stands in Slack: edits are no further messages."""
    keys: Counter[str] = Counter()
    places = set()
    for one in written:
        place = (one["channel"], one["ts"], one["ephemeral_to"])
        if one["metadata"] and place not in places:
            keys[str(one["metadata"]["event_payload"]["key"])] += 1
        places.add(place)
    return keys


def said_wrongly(keys: Counter[str], status: Mapping[str, str]) -> Iterator[str]:
    """Yields messages that are in Slack twice, or where Slack and the ledger differ. `status` is the ledger's."""
    for key, count in keys.items():
        if count > 1:
            yield f"message {key} was posted {count} times"
        if status.get(key) != "accepted":
            yield f"message {key} is in Slack, and {status.get(key, 'not')} in the ledger"
    for key, state in status.items():
        if state == "accepted" and key not in keys:
            yield f"message {key} is accepted, and not in Slack"
        if state in ("intended", "sending"):
            yield f"message {key} still waits at the end"


def differences(billed: Mapping[str, int], spent: Mapping[str, int]) -> Iterator[str]:
    """Yields the VMs whose bill and ledger differ by half a cent or more; nano-dollars by the VM's number."""
    for gce_id in billed.keys() | spent.keys():
        bill, ledger = billed.get(gce_id), spent.get(gce_id)
        if abs((bill or 0) - (ledger or 0)) >= HALF_A_CENT or (bill and ledger is None):
            yield f"VM {gce_id}: the bill has {bill} nano-dollars, and the ledger {ledger}"


def jobs_gone_wrong(
    jobs: Iterable[Mapping[str, Any]], operations: Sequence[Mapping[str, Any]], taken_back: Collection[str]
) -> Iterator[str]:
    """Yields jobs that did not succeed, attempts without exactly one VM, and attempts that followed no preemption.

    `jobs` are answers of `GET /api/v1/jobs/ID`. A VM is preempted by Google's operation or by its notice: where the
    command saved and ended within it, the VM is deleted before the operation. `taken_back` names VMs with a notice.
    """
    made = Counter(_target(one) for one in operations if one["operationType"] == "insert")
    preempted = {_target(one) for one in operations if one["operationType"] == "compute.instances.preempted"}
    preempted |= set(taken_back)
    for one in jobs:
        job, names = one["job"], [attempt["name"] for attempt in one["attempts"]]
        if job["state"] != "succeeded":
            yield f"job {job['id']} is {job['state']}"
        for name in names:
            if made[name] != 1:
                yield f"attempt {name} had {made[name]} VMs"
        for name, following in pairwise(names):
            if name not in preempted:
                yield f"attempt {following} followed {name}, which was not preempted"


def _target(operation: Mapping[str, Any]) -> str:
    return str(operation["targetLink"]).rpartition("/")[2]
