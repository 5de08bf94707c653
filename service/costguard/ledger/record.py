"""Records one observation of a project in the ledger, in transactions of a bounded size.

A VM is recorded whole in one transaction, with its operations, and the look itself in the last one. So wherever this
ends, the ledger is true of each VM, and the next look does what is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog
from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.isolation import Isolated
from costguard.ledger import answers, operations, projects
from costguard.ledger import lifetimes as ledger
from costguard.ledger.discovery import rows as discovered
from costguard.ledger.feed import heard_projects, kept_requests
from costguard.ledger.feed.kept_requests import UNTOLD, KeptRequest
from costguard.ledger.feed.unlisted import is_untold, still_heard, was_listed
from costguard.ledger.labels.label_history import moment_of_change
from costguard.ledger.launched import launched, launched_by_label, unseen
from costguard.ledger.lifetimes import Change, ListedVm, RowsWritten
from costguard.ledger.looks.compared import compared, deleted, may_be_gone, recorded_part, running
from costguard.ledger.narrate import tell_failed, tell_gap, tell_looks, tell_refused, tell_unwatched
from costguard.ledger.observe import Belonging, KnownFacts, account
from costguard.ledger.projects import ProjectLook
from costguard.ledger.running import running_totals
from costguard.model.event import Event
from costguard.model.instance import InstanceKey, SeenInstance
from costguard.model.observation import Observation, SeenOperation, Unread
from costguard.model.ports import Cloud, Presence
from costguard.model.record import KnownInstance, VmRequested
from costguard.model.reminder import Claim

_AT_ONCE, _BATCH = 8, 32  # VMs whose presence is asked for
AT_ONCE = 600  # VMs and operations in one transaction, which takes a few tenths of a second
MOST_EVENTS = 1000  # a report shows no more

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result of one look at one project."""

    project: str
    seen: int = 0
    running: int = 0
    new_or_changed: int = 0
    absent: int = 0  # confirmed to be gone
    missing: int = 0  # not listed, and not confirmed to be gone
    lifetimes: int = 0
    events: tuple[Event, ...] = ()  # the first of them
    event_count: int = 0
    unread: tuple[Unread, ...] = ()
    error: str = ""  # why nothing could be recorded


def record(
    database: Database,
    cloud: Cloud,
    observation: Observation,
    belonging: Belonging,
    fence: Lease | None,
    at_once: int = AT_ONCE,
    *,
    is_second: bool = False,
) -> Recorded:
    """Bring the ledger up to date with one observation. A look that shows nothing new writes one row.

    Where the ledger does not hold what an unchanged VM is, or an operation of it came, it is read whole by a second
    look. What that does not show is left to the next pass.

    VMs that are no longer listed are asked for one by one before anything is written: only a delete
    operation or a 404 makes a VM gone, never its absence from a list.
    """
    project = observation.project
    mark = f".{belonging.mark}"  # every VM is sorted again when the rules that sort VMs change
    with database.read() as connection:
        standings = ledger.standings(connection, project)
        ours = launched_by_label(connection, [observation])[project]
        news = operations.news(connection, observation.operations)
        of_vms = _by_target(news)
        there = {*(seen.key.gce_id for seen in observation.instances), *(vm.gce_id for vm in observation.unchanged)}
        of_ours = unseen(connection, project, of_vms, {*standings, *there})
        before = projects.last_look(connection, project)
        missed = heard_projects.missed_of(connection, observation, news, before)
    observation = recorded_part(observation, {*standings, *ours}, belonging.gpu_only)
    # A VM that turns out to be of a job, or of none, is accounted for again then.
    marks = {gce_id: f"{mark}.{vm.job}" for gce_id, vm in ours.items()}
    vms = compared(observation, standings, marks, mark)
    to_read = vms.to_read | {vm.gce_id for vm in observation.unchanged if vm.gce_id in of_vms}
    if to_read and not is_second:
        cloud.forget(project, to_read | vms.listed.keys())  # what this look showed would be unchanged in the next
        again = cloud.observe(project, before.operations_through_at if before is not None else None)
        return record(database, cloud, again, belonging, fence, at_once, is_second=True)
    listed, changed = vms.listed, vms.changed
    absent = _absent(cloud, observation, vms.unlisted)
    missing = len(vms.unlisted) - len(absent)
    unlisted = sorted({*absent, *of_vms} - there)
    requests = kept_requests.asked_for(database, cloud, project, of_ours, unlisted, of_vms)
    look = _Look(observation, belonging, listed, marks, mark, changed, absent, before, requests, missed)
    parts = list(_parts(sorted({*changed, *absent, *of_vms}), of_vms, at_once))
    for part in parts[:-1]:
        with database.write(fence) as connection:
            if before is None:
                projects.begin(connection, project, observation.read_at)
                running_totals.leave_to_catch_up(connection)
            look.tell(connection, look.record(connection, part, of_vms))
    with database.write(fence) as connection:
        events = look.record(connection, parts[-1], of_vms) if parts else []
        return look.end(connection, events, missing)


@dataclass(slots=True)
class _Look:
    """The result of one look, so far."""

    observation: Observation
    belonging: Belonging
    listed: Mapping[str, SeenInstance]
    marks: Mapping[str, str]  # of the VMs of jobs
    mark: str  # of all others
    changed: Collection[str]
    absent: Collection[str]
    before: ProjectLook | None
    requests: Mapping[str, VmRequested]  # of unseen VMs
    missed: int  # operations of which the feed has not told
    saved: RowsWritten = field(default_factory=RowsWritten)
    events: list[Event] = field(default_factory=list)
    event_count: int = 0
    unread: list[Unread] = field(default_factory=list)

    def record(
        self, connection: Connection, gce_ids: Sequence[str], news: Mapping[str, Sequence[SeenOperation]]
    ) -> list[Event]:
        """Records some of the VMs, each with its operations, and returns the events to tell of them."""
        new = [operation for gce_id in gce_ids for operation in news.get(gce_id, ())]
        from_entries = operations.heard_ends(connection, new) if new else {}
        operations.record(connection, new)
        changes, events = self._account(connection, gce_ids, new, from_entries)
        with running_totals.following(connection, self.observation.project, _ids(changes), self.observation.read_at):
            saved = ledger.save(connection, changes)
        self.saved = RowsWritten(
            self.saved.instances + saved.instances,
            self.saved.lifetimes + saved.lifetimes,
            self.saved.storage + saved.storage,
        )
        refused = {(c.record.key.gce_id, c.started_at.isoformat()) for c in saved.refused if not c.disk}
        events = [event for event in events if not _corrects(event, refused)]
        return [*events, *(tell_refused(c, self.observation.read_at) for c in saved.refused)]

    def end(self, connection: Connection, events: Sequence[Event], missing: int) -> Recorded:
        """Records the look itself, once all that it showed is, and tells `events`, which are of the last VMs."""
        observation, read_at, before = self.observation, self.observation.read_at, self.before
        looked = replace(observation, unread=(*observation.unread, *self.unread))
        events = [*events, *tell_looks(looked, before.unread if before is not None else ())]
        if before is not None and before.operations_through_at and observation.operations_through_at:
            gap = tell_gap(observation.project, before.operations_through_at, read_at)
            events += [gap] if gap else []
        discovered.note_refusals(connection, looked, before.unread if before is not None else ())
        projects.record_look(connection, looked, read_at)
        if self.missed:
            heard_projects.note_missed(connection, observation.project, self.missed, read_at)
        self.tell(connection, events)
        return Recorded(
            project=observation.project,
            seen=len(self.listed) + len(observation.unchanged),
            running=running(observation),
            new_or_changed=self.saved.instances,
            absent=len(self.absent),
            missing=missing,
            lifetimes=self.saved.lifetimes,
            events=tuple(self.events),
            event_count=self.event_count,
            unread=looked.unread,
        )

    def tell(self, connection: Connection, events: Sequence[Event]) -> None:
        audit_log.append(connection, events, self.observation.read_at)
        self.event_count += len(events)
        self.events += events[: MOST_EVENTS - len(self.events)]

    def _seen(self, gce_id: str) -> SeenInstance | None:
        seen = self.listed.get(gce_id)
        return None if seen is None else replace(seen, fingerprint=seen.fingerprint + self.marks.get(gce_id, self.mark))

    def _account(
        self,
        connection: Connection,
        gce_ids: Sequence[str],
        news: Sequence[SeenOperation],
        from_entries: Mapping[str, Mapping[datetime, SeenOperation]],
    ) -> tuple[list[Change], list[Event]]:
        project, read_at, belonging = self.observation.project, self.observation.read_at, self.belonging
        stored = ledger.load(connection, project, gce_ids)
        kept_requests.forget(
            connection, project, [one for one in stored if one in self.listed and not was_listed(stored[one])]
        )
        all_operations = operations.of_targets(connection, project, gce_ids)
        watched_since = projects.watched_since(connection, project) or read_at
        claimed = _claims(connection, stored)
        of_jobs = launched(connection, project, gce_ids, self.listed, stored, all_operations)
        changes, events = [], [event for op in news if (event := tell_failed(op)) is not None]
        news_of = _by_target(news)
        for gce_id in gce_ids:
            seen = self._seen(gce_id)
            if belonging.gpu_only and seen is None and gce_id not in stored and gce_id not in of_jobs:
                continue
            entry = None
            with Isolated("instance_not_recorded", project=project, gce_id=gce_id) as failure:
                entry = account(
                    InstanceKey(project, gce_id),
                    KnownFacts(
                        stored.get(gce_id),
                        seen,
                        all_operations.get(gce_id, []),
                        read_at,
                        watched_since,
                        absent=gce_id in self.absent,
                        claim=claimed.get(gce_id),
                        launched=of_jobs.get(gce_id),
                        requested=self.requests.get(gce_id),
                        from_entries={**still_heard(all_operations.get(gce_id, ())), **from_entries.get(gce_id, {})},
                    ),
                    belonging,
                )
            if failure.error is not None:
                self.unread.append(_not_recorded(seen.name if seen is not None else gce_id, failure.error))
            if entry is not None:
                labelled_at = moment_of_change(news_of.get(gce_id, ()), read_at)
                changes.append(Change(entry.record, stored.get(gce_id), entry.lifetimes, entry.storage, labelled_at))
                events.extend(entry.events)
        kept_requests.note(connection, self._untold(changes, all_operations), read_at)
        return changes, events

    def _untold(
        self, changes: Sequence[Change], ops: Mapping[str, Sequence[SeenOperation]]
    ) -> dict[InstanceKey, KeptRequest]:
        """The VMs that no listing has shown and of which nothing says what they are: others are asked later."""
        keys = [(change.record.key, change.stored) for change in changes if not change.record.shape.machine_type]
        return {key: UNTOLD for key, stored in keys if is_untold(stored, ops.get(key.gce_id, ()), gpu_only=False)}


def _corrects(event: Event, runs: Collection[tuple[str, object]]) -> bool:
    """Says whether it reports a correction of one of these runs, by VM and start."""
    return event.kind == "LifetimeEndCorrected" and (event.gce_id, event.data.get("started_at")) in runs


def _by_target(news: Iterable[SeenOperation]) -> dict[str, list[SeenOperation]]:
    by_target: dict[str, list[SeenOperation]] = defaultdict(list)
    for operation in news:
        by_target[operation.target_id].append(operation)
    return by_target


def _parts(gce_ids: Iterable[str], news: Mapping[str, Sequence[SeenOperation]], at_once: int) -> Iterator[list[str]]:
    """Yields parts of so many VMs and operations each, or one VM."""
    part: list[str] = []
    rows = 0
    for gce_id in gce_ids:
        part.append(gce_id)
        rows += 1 + len(news.get(gce_id, ()))
        if rows >= at_once:
            yield part
            part, rows = [], 0
    if part:
        yield part


def close_account(
    database: Database, look: ProjectLook, belonging: Belonging, fence: Lease | None, at_once: int = AT_ONCE
) -> None:
    """End the account of a project that is not watched any more at its last look, all ends being estimates.

    What ran then would otherwise go on costing for ever. When the project is watched again, what still runs
    goes on from where it was.
    """
    project, last_at = look.project, look.last_tried_at
    with database.read() as connection:
        gce_ids = sorted(ledger.standings(connection, project))
    for part in _parts(gce_ids, {}, at_once):
        with database.write(fence) as connection:
            changes = list(_closed(connection, part, look, belonging))
            with running_totals.following(connection, project, _ids(changes), last_at):
                ledger.save(connection, changes)
    with database.write(fence) as connection:
        why = discovered.why_gone(connection, project)
        audit_log.append(connection, [tell_unwatched(project, last_at, why)], last_at)
        discovered.close(connection, project, last_at)
        projects.forget(connection, project)


def _ids(changes: Iterable[Change]) -> list[str]:
    return [change.record.key.gce_id for change in changes]


def _closed(
    connection: Connection, gce_ids: Sequence[str], look: ProjectLook, belonging: Belonging
) -> Iterator[Change]:
    project, last_at = look.project, look.last_tried_at
    stored = ledger.load(connection, project, gce_ids)
    done = operations.of_targets(connection, project, gce_ids)
    claimed = _claims(connection, stored)
    of_jobs = launched(connection, project, gce_ids, {}, stored, done)
    for gce_id in gce_ids:
        instance = stored[gce_id]
        facts = KnownFacts(
            instance,
            None,
            done.get(gce_id, []),
            last_at,
            last_at,
            absent=True,
            claim=claimed.get(gce_id),
            launched=of_jobs.get(gce_id),
        )
        entry = account(InstanceKey(project, gce_id), facts, belonging)
        if entry is not None:
            yield Change(entry.record, instance, entry.lifetimes, entry.storage)


def _absent(cloud: Cloud, observation: Observation, unlisted: Sequence[tuple[str, ListedVm]]) -> set[str]:
    """The ids that are confirmed to be gone, of those that are missing from what was read."""
    known_deleted = deleted(observation)
    gone = {gce_id for gce_id, _ in unlisted if gce_id in known_deleted}
    unsure = [
        (gce_id, standing) for gce_id, standing in unlisted if gce_id not in gone and may_be_gone(observation, standing)
    ]
    return gone | _confirmed(cloud, observation.project, unsure)


def _confirmed(cloud: Cloud, project: str, unsure: Sequence[tuple[str, ListedVm]]) -> set[str]:
    """Many at once, since a region's VMs may vanish together. Once nothing is answered, the rest waits for a pass."""
    gone: set[str] = set()
    if not unsure:
        return gone

    def ask(one: tuple[str, ListedVm]) -> Presence:
        gce_id, standing = one
        return cloud.presence(InstanceKey(project, gce_id), standing.zone, standing.name)

    with ThreadPoolExecutor(min(len(unsure), _AT_ONCE), thread_name_prefix="presence") as pool:
        for begin in range(0, len(unsure), _BATCH):
            batch = unsure[begin : begin + _BATCH]
            answers = list(pool.map(ask, batch))
            gone |= {gce_id for (gce_id, _), answer in zip(batch, answers, strict=True) if answer is Presence.GONE}
            if Presence.NOT_KNOWN in answers and len(set(answers)) == 1:
                break
    return gone


def _claims(connection: Connection, stored: Mapping[str, KnownInstance]) -> dict[str, Claim]:
    """The latest claim of each VM of which there is one."""
    claims = answers.claims_of(connection, [instance.id for instance in stored.values()])
    return {gce_id: claims[instance.id][-1] for gce_id, instance in stored.items() if claims.get(instance.id)}


def _not_recorded(name: str, error: Exception) -> Unread:
    return Unread(
        scope=f"instance {name}",
        code="not_recorded",
        reason=f"{name} could not be recorded ({type(error).__name__}: {error}). "
        "It is tried again at every pass; the log holds the trace to report.",
    )


def failed(observation: Observation, error: Exception) -> Recorded:
    """The report of a project whose look could not be written down."""
    return Recorded(project=observation.project, unread=observation.unread, error=str(error))
