"""Reads what decisions about VMs are based on, and stores the reminders that were decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import TypedDict

from sqlalchemy import Connection, select

from costguard.access.rules import Rules
from costguard.db.bulk import chunks
from costguard.db.tables import lifetimes
from costguard.jobs.rows import agenda
from costguard.ledger import answers, generation, projects, unknown_vms
from costguard.ledger import fleet_rows as fleet
from costguard.ledger.accrual import accrual_at
from costguard.ledger.idle import utilisation
from costguard.model.action import SendReminder, StopOutcome
from costguard.model.instance import InstanceKey
from costguard.model.reminder import Claim, Keep, Ownership, Request, Sent, Subject, SubjectKind
from costguard.model.utilisation import Evidence
from costguard.reminders import message_rows, not_stopped, request_rows, slack_accounts, watched_rows
from costguard.reminders import stop_rows as stops
from costguard.reminders.decide import decide
from costguard.reminders.message_rows import NewMessage
from costguard.reminders.not_stopped import StopDiagnosis
from costguard.reminders.pools import POOL_KEYS, as_one, key_of, pool_of, prefix_of
from costguard.reminders.stop_rows import StopRecord
from costguard.reminders.watched import FleetPlan, Pool, WatchedVm
from costguard.reminders.watched_rows import WatchedRow


class _SubjectPast(TypedDict):
    sent: tuple[Sent, ...]
    keeps: tuple[Keep, ...]
    claims: tuple[Claim, ...]
    stop: StopOutcome | None


_UNCLAIMED = Ownership()
_NOTHING_YET: _SubjectPast = {"sent": (), "keeps": (), "claims": (), "stop": None}


@dataclass(frozen=True, slots=True)
class _Past:
    """The messages, answers and stops of subjects that may be due."""

    sent: Mapping[Subject, tuple[Sent, ...]]
    keeps: Mapping[Subject, tuple[Keep, ...]]
    claims: Mapping[int, tuple[Claim, ...]]
    stops: Mapping[Subject, tuple[StopRecord, ...]]
    began_at: datetime | None = None  # of the database's generation, where it is not the first

    def of(self, subject: Subject | None, began: datetime | None) -> _SubjectPast:
        """Claims before the subject began answered another one; stops before the last answer, another cycle.

        A stop that was not needed changes nothing about the one before it: what failed stays failed.
        """
        if subject is None:
            return _NOTHING_YET
        keeps = self._with_restore(subject, began)
        if not (keeps or subject.instance_id in self.claims or subject in self.stops):  # as of nearly every one
            return {**_NOTHING_YET, "sent": self.sent.get(subject, ())}
        claims = tuple(
            claim for claim in self.claims.get(subject.instance_id, ()) if began is None or claim.at >= began
        )
        answered = [keep.at for keep in keeps] + [claim.at for claim in claims]
        stops = [
            stop
            for stop in self.stops.get(subject, ())
            if stop.outcome is not StopOutcome.NOT_NEEDED and (not answered or stop.intended_at >= max(answered))
        ]
        return {
            "sent": self.sent.get(subject, ()),
            "keeps": keeps,
            "claims": claims,
            "stop": stops[-1].outcome if stops else None,
        }

    def _with_restore(self, subject: Subject, began: datetime | None) -> tuple[Keep, ...]:
        """Adds the restore as an answer, since later answers were lost with it: people are reminded again.

        Nothing is stopped on the strength of a warning from before it.
        """
        kept = self.keeps.get(subject, ())
        if self.began_at is None or began is None or began >= self.began_at:
            return kept
        answer = Keep(subject, self.began_at, "costguard", self.began_at, "its database was restored")
        return tuple(sorted((*kept, answer), key=lambda keep: keep.at))


def look_at(
    connection: Connection, rules: Rules, now: datetime, ids: Collection[int] | None = None
) -> tuple[FleetPlan, list[WatchedVm]]:
    """Decides, at this moment, about the fleet as the ledger knows it, or about these VMs of it, in one order."""
    fleet = gather(connection, rules, now, ids)
    return decide_about(connection, fleet, rules, now), fleet


def why_not_stopped(
    connection: Connection, rules: Rules, instance_id: int, measured: Evidence | None, now: datetime
) -> StopDiagnosis:
    """Explains what keeps this VM from being stopped, by the rules of a pass at this moment."""
    vm = next(iter(gather(connection, rules, now, [instance_id])), None)
    if vm is None:
        return not_stopped.GONE
    zones = projects.unread(projects.read_all(connection)).get(vm.key.project, frozenset())
    return not_stopped.why_not_stopped(vm, rules, zones, slack_accounts.of_addresses(connection, None), measured, now)


def decide_about(
    connection: Connection,
    fleet: Sequence[WatchedVm],
    rules: Rules,
    now: datetime,
    answers_since: datetime | None = None,
    unrecorded: Collection[str] = (),
) -> FleetPlan:
    """Decides about these VMs with the present knowledge of projects and people.

    `unrecorded` are projects whose last look the database could not take: what it holds of them may be over.
    """
    unread = projects.unread(projects.read_all(connection)) | dict.fromkeys(unrecorded, frozenset({"*"}))
    return decide(fleet, rules, unread, slack_accounts.of_addresses(connection, None), now, answers_since)


def gather(
    connection: Connection,
    rules: Rules,
    now: datetime,
    ids: Collection[int] | None = None,
    without_stop: int | None = None,
    due: Collection[int] | None = None,
) -> list[WatchedVm]:
    """Every existing VM, or these, with everything that decisions need. `without_stop`: as if it had not begun.

    `due`: these and their pools, each just as it is among all, and perhaps others; see `due_rows`.
    """
    rows = _rows(connection, ids) if due is None else _due_rows(connection, due)
    idle = utilisation.idle_runs(connection, now, None if ids is None else [row.instance_id for row in rows])
    open_requests: dict[int, list[Request]] = defaultdict(list)
    for instance_id, request in request_rows.open_requests(connection):
        open_requests[instance_id].append(request)
    relevant = _relevant(rows, lambda row: ids is not None or row.instance_id in open_requests, rules, idle, now)
    of_jobs = {row.job for row in rows if row.job}
    at_work = agenda.at_work(connection, of_jobs if ids is not None else None) if of_jobs else {}
    resting = [row.instance_id for row in rows if row.started_at is None]
    open_storage = watched_rows.open_storage(connection, {*relevant, *resting})
    with_storage = {instance_id for instance_id, *_ in open_storage}
    subjects = _subjects(relevant.values(), with_storage)
    past = _read_past(connection, subjects, _runs_before(connection, relevant), without_stop)
    unknown = {vm.key for vm in unknown_vms.there(connection)}
    ownerships = answers.ownerships(connection, list(open_requests))
    rates = accrual_at(connection, now).rates_of(relevant, open_storage)
    whole_rates = {instance_id: rate.amount for instance_id, rate in rates.items() if rate.whole}
    vms = [
        WatchedVm(
            key=row.key,
            name=row.name,
            zone=row.zone,
            status=row.status,
            preset=row.preset,
            running_since=row.started_at,
            age_from=row.age_from,
            idle=idle.get(row.key),
            instance_id=row.instance_id,
            lifetime_id=row.lifetime_id,
            rest_since=row.rests_since if row.instance_id in with_storage else None,
            labels=row.labels,
            origin=row.origin,
            owner=row.owner,
            rate=whole_rates.get(row.instance_id),
            requests=tuple(open_requests[row.instance_id]) if row.instance_id in open_requests else (),
            ownership=ownerships.get(row.instance_id, _UNCLAIMED),
            job=row.job if row.job and at_work.get((row.key.project, row.name)) == row.job else "",
            is_unknown=row.key in unknown,
            pool=_pool(row) if row.instance_id in relevant else None,
            **past.of(subjects.get(row.instance_id), row.age_from or row.started_at or row.rests_since),
        )
        for row in rows
    ]
    there = {row.instance_id for row in rows}
    wanted = [one for one in open_requests if one not in there and (ids is None or one in ids)]
    return [*_with_pools_past(connection, _pools(relevant.values()), vms), *_gone(connection, wanted, open_requests)]


def _rows(connection: Connection, ids: Collection[int] | None) -> list[WatchedRow]:
    rows = watched_rows.read(connection, ids)
    return rows if ids is None else _with_their_pools(connection, rows)


def _due_rows(connection: Connection, due: Collection[int]) -> list[WatchedRow]:
    """Reads these and their pools, in the order of all, which is that of what is sent."""
    rows = _with_their_pools(connection, watched_rows.read_some(connection, due))
    return sorted(rows, key=attrgetter("key.project", "name"))


def _relevant(
    rows: Sequence[WatchedRow],
    is_asked: Callable[[WatchedRow], bool],
    rules: Rules,
    idle: Mapping[InstanceKey, Evidence],
    now: datetime,
) -> dict[int, WatchedRow]:
    """VMs whose history and cost can matter, with their pools: a fleet within its limits costs no further queries."""
    relevant = {row.instance_id: row for row in rows if is_asked(row) or _may_be_due(row, rules, idle, now)}
    if pools := _pools(relevant.values()):
        relevant |= {row.instance_id: row for row in rows if row.keeper is not None and _pool(row) in pools}
    return relevant


def _pool(row: WatchedRow) -> Pool | None:
    return pool_of(row.key, row.keeper) if row.keeper is not None and row.started_at is not None else None


def _pools(rows: Iterable[WatchedRow]) -> set[Pool]:
    return {pool for row in rows if (pool := _pool(row)) is not None}


def _with_their_pools(connection: Connection, rows: list[WatchedRow]) -> list[WatchedRow]:
    """Adds the other VMs of their pools: a pool is decided about as a whole."""
    if not (pools := _pools(rows)):
        return rows
    ids = {row.instance_id for row in rows}
    others = watched_rows.in_projects_of_kind(connection, {(pool.project, pool.kind) for pool in pools})
    added = watched_rows.read(connection, [one for one in others if one not in ids])
    return [*rows, *(row for row in added if _pool(row) in pools)]


def _with_pools_past(connection: Connection, wanted: Collection[Pool], vms: Sequence[WatchedVm]) -> list[WatchedVm]:
    """Gives each VM of these pools what any of its pool's VMs was sent, and how that was answered."""
    if not wanted:
        return [*vms]
    beginnings = {prefix_of(pool): pool for pool in wanted}
    reminders: dict[Pool, list[Sent]] = defaultdict(list)
    subjects: dict[Subject, Pool] = {}
    for subject, sent in message_rows.sent_by_key(connection, POOL_KEYS):
        pool = beginnings.get(sent.key[: sent.key.index(f"/{subject}/") + 1])
        if pool is not None:
            reminders[pool].append(sent)
            subjects[subject] = pool
    kept: dict[Pool, list[Keep]] = defaultdict(list)
    for subject, keeps in answers.keeps_of(connection, subjects).items():
        kept[subjects[subject]] += keeps
    return as_one(vms, reminders, kept)


def _runs_before(connection: Connection, rows: Mapping[int, WatchedRow]) -> dict[int, list[Subject]]:
    """Returns the runs of VMs that Google alone began again, since a person last started them: a keep of these still
    holds.
    """
    chained = {row.instance_id: row.age_from for row in rows.values() if row.age_from is not None}
    columns, before = lifetimes.c, dict[int, list[Subject]]()
    for chunk in chunks(sorted(chained)):
        query = select(columns.id, columns.instance_id, columns.started_at)
        for row in connection.execute(query.where(columns.instance_id.in_(chunk), columns.ended_at.is_not(None))):
            if row.started_at >= chained[row.instance_id]:
                subject = Subject(SubjectKind.RUN, row.instance_id, row.id)
                before.setdefault(row.instance_id, []).append(subject)
    return before


def _read_past(
    connection: Connection,
    subjects: Mapping[int, Subject],
    before: Mapping[int, Sequence[Subject]],
    without_stop: int | None,
) -> _Past:
    named = list(subjects.values())
    sent = message_rows.sent_of(connection, named)
    begun_stops = {
        subject: tuple(stop for stop in begun if stop.id != without_stop)
        for subject, begun in stops.of_subjects(connection, named).items()
    }
    earlier = [subject for some in before.values() for subject in some]
    kept = answers.keeps_of(connection, [*named, *earlier])
    for instance_id, some in before.items():
        if instance_id in subjects:
            together = [keep for subject in (*some, subjects[instance_id]) for keep in kept.get(subject, ())]
            kept[subjects[instance_id]] = tuple(sorted(together, key=lambda keep: keep.at))
    claims = answers.claims_of(connection, list(subjects))
    return _Past(sent, kept, claims, begun_stops, generation.read(connection).began_at)


def intend(
    connection: Connection, sends: Sequence[SendReminder], vms: Mapping[InstanceKey, WatchedVm], now: datetime
) -> int:
    """Writes down what is to be sent, each stage to each of its targets once, and returns how many are new."""
    return sum(
        message_rows.intend(connection, new, now) for send in sends for new in _messages(send, vms[send.key].pool)
    )


def _messages(send: SendReminder, pool: Pool | None) -> list[NewMessage]:
    return [
        NewMessage(
            key=f"{key_of(pool, send.subject)}{send.cycle}/{send.stage}/{target.value}",
            kind="reminder",
            address=address,
            data={"reason": send.reason},
            subject=send.subject,
            instance_id=send.subject.instance_id,
            cycle=send.cycle,
            stage=send.stage,
            target=target,
        )
        for target, address in send.recipients.items()
    ]


def _gone(
    connection: Connection, ids: Sequence[int], open_requests: Mapping[int, Sequence[Request]]
) -> list[WatchedVm]:
    """Gone VMs with open requests, which are refused."""
    if not ids:
        return []
    return [
        WatchedVm(
            key=vm.key,
            name=vm.name,
            zone=vm.zone,
            status=vm.status,
            preset=vm.preset,
            running_since=None,
            instance_id=vm.id,
            owner=vm.owner,
            requests=tuple(open_requests[vm.id]),
            is_gone=True,
        )
        for vm in fleet.known(connection, ids)
    ]


def _subjects(rows: Iterable[WatchedRow], with_storage: Collection[int]) -> dict[int, Subject]:
    """Returns the subjects of the VMs that bill: of those that run, and of those that rest with storage."""
    return {
        row.instance_id: Subject(
            SubjectKind.REST if row.started_at is None else SubjectKind.RUN, row.instance_id, row.lifetime_id
        )
        for row in rows
        if row.started_at is not None or row.instance_id in with_storage
    }


def _may_be_due(row: WatchedRow, rules: Rules, idle: Mapping[InstanceKey, Evidence], now: datetime) -> bool:
    if row.started_at is None:
        after = rules.rest.after
        return after is not None and row.rests_since is not None and now - row.rests_since >= after
    preset = rules.presets.get(row.preset)
    late = preset is not None and preset.limit is not None and now - (row.age_from or row.started_at) >= preset.limit
    return late or row.key in idle
