"""Records entries of the audit log in the ledger: hints, which cost one look where they are wrong.

A batch of entries of any projects is one transaction of a few statements. Entries may come twice, late and in any
order: operations are joined with what is known of them, and each VM is accounted for by all of its operations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog
from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.isolation import Isolated
from costguard.ledger import lifetimes as ledger
from costguard.ledger import operations, projects
from costguard.ledger.answers import claims_of
from costguard.ledger.feed import heard_projects, kept_requests
from costguard.ledger.feed.bulk import BulkRequest
from costguard.ledger.feed.entry import FeedEntry, Phase
from costguard.ledger.feed.kept_requests import UNTOLD, KeptRequest
from costguard.ledger.feed.kinds import FeedKind
from costguard.ledger.feed.merging import merged, operation_of
from costguard.ledger.feed.unlisted import is_untold, still_heard, was_listed
from costguard.ledger.launched import launched
from costguard.ledger.lifetimes import Change
from costguard.ledger.narrate import tell_failed
from costguard.ledger.observe import Belonging, Entry, KnownFacts, account
from costguard.ledger.running import running_totals
from costguard.model.event import Event
from costguard.model.instance import InstanceKey, Status
from costguard.model.lifetime import EndReason
from costguard.model.observation import SeenOperation
from costguard.model.ports import Cloud
from costguard.model.record import KnownInstance, LaunchedFor, VmRequested

_OF_A_JOB = "cg-"  # begins the names of the VMs of jobs
_LOOK_AGAIN = "!"  # at the end of a fingerprint: the next listing accounts for the VM, whatever it shows

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FeedRecorded:
    """Counts what a batch of entries came to. No listing had shown `new_vms`; `unwatched` are of other projects."""

    entries: int = 0
    noise: int = 0  # about no VM, or without what tells which
    unwatched: int = 0
    doubled: int = 0  # said nothing new
    operations: int = 0  # new, or further than they were known
    new_vms: int = 0
    lifetimes: int = 0
    projects: frozenset[str] = frozenset()  # that were heard


@dataclass(slots=True)
class _Batch:
    """The entries that say something, by their VMs."""

    said: list[tuple[FeedEntry, SeenOperation]] = field(default_factory=list)
    requests: dict[InstanceKey, KeptRequest] = field(default_factory=dict)
    bulks: dict[tuple[str, str], BulkRequest] = field(default_factory=dict)  # by project and operation
    noise: int = 0
    unwatched: int = 0
    by_project: Counter[str] = field(default_factory=Counter)  # entries by watched project

    @property
    def keys(self) -> list[InstanceKey]:
        return sorted({*self.requests, *(InstanceKey(op.project, op.target_id) for _, op in self.said)})


def record_entries(
    database: Database,
    cloud: Cloud,
    entries: Sequence[FeedEntry],
    belonging: Belonging,
    fence: Lease | None,
    heard_at: datetime | None = None,
) -> FeedRecorded:
    """Brings the ledger up to date with entries that were heard at `heard_at`; repeating them changes nothing more.

    None: they were heard when the newest of them was written.

    Only projects that a look has shown already are recorded: the listing is the truth, and comes first. Raises
    StoreError; entries that were not recorded are to be given again.
    """
    if heard_at is None:
        heard_at = max((entry.written_at for entry in entries if entry.written_at is not None), default=None)
    if heard_at is None:
        return FeedRecorded(entries=len(entries), noise=len(entries))
    with database.read() as connection:
        watched_since = {look.project: look.first_seen_at for look in projects.read_all(connection)}
        batch = _sorted(entries, watched_since)
        of_before = kept_requests.read(connection, batch.keys) if batch.said else {}
        of_before = {key: one for key, one in of_before.items() if one.says_all}
        batch.requests.update(_of_bulks(connection, batch, of_before))
    requested = kept_requests.vms_of(cloud, {**batch.requests, **of_before})
    with database.write(fence) as connection:
        look = _Heard(connection, batch, belonging, requested, watched_since, heard_at)
        kept_requests.note_bulks(connection, batch.bulks, heard_at)
        doubled = look.record() if batch.said else Counter[str]()
        heard_projects.add(
            connection, {name: (count, doubled[name]) for name, count in batch.by_project.items()}, heard_at
        )
    return FeedRecorded(
        entries=len(entries),
        noise=batch.noise,
        unwatched=batch.unwatched,
        doubled=doubled.total(),
        operations=look.operations,
        new_vms=look.new_vms,
        lifetimes=look.lifetimes,
        projects=frozenset(batch.by_project),
    )


def record_requests(
    database: Database,
    cloud: Cloud,
    requests: Mapping[InstanceKey, KeptRequest],
    belonging: Belonging,
    fence: Lease | None,
    now: datetime,
) -> None:
    """Records what VMs are that were heard of before, of which no listing and no entry said it. Raises StoreError."""
    requested = kept_requests.vms_of(cloud, requests)
    with database.write(fence) as connection:
        watched_since = {look.project: look.first_seen_at for look in projects.read_all(connection)}
        of_watched = {key: one for key, one in requests.items() if key.project in watched_since}
        _Heard(connection, _Batch(requests=of_watched), belonging, requested, watched_since, now).record()


def _sorted(entries: Iterable[FeedEntry], watched: Collection[str]) -> _Batch:
    batch = _Batch()
    for entry in entries:
        if entry.project is not None and entry.project not in watched:
            batch.unwatched += 1
            continue
        if entry.project is not None:
            batch.by_project[entry.project] += 1
            if entry.bulk is not None and entry.operation is not None:
                batch.bulks.setdefault((entry.project, entry.operation), entry.bulk)
                continue
        operation = operation_of(entry)
        if operation is None:
            batch.noise += 1
            continue
        batch.said.append((entry, operation))
        if entry.kind is FeedKind.CREATED and entry.request is not None:
            key = InstanceKey(operation.project, operation.target_id)
            batch.requests.setdefault(key, KeptRequest(operation.zone, entry.request))
    return batch


def _of_bulks(
    connection: Connection, batch: _Batch, of_before: Collection[InstanceKey]
) -> dict[InstanceKey, KeptRequest]:
    """Returns what was asked for of the VMs whose inserts say nothing of it, by the bulk inserts that made them."""
    inserts = [op for _, op in batch.said if op.kind == "insert" and op.error_code is None]
    keys = {InstanceKey(op.project, op.target_id): op for op in inserts}
    clear = {*of_before, *(key for key, one in batch.requests.items() if one.says_all)}
    return kept_requests.of_bulks(connection, {key: op for key, op in keys.items() if key not in clear}, batch.bulks)


@dataclass(slots=True)
class _Heard:
    """Records one batch in the caller's transaction."""

    connection: Connection
    batch: _Batch
    belonging: Belonging
    requested: Mapping[InstanceKey, VmRequested]
    watched_since: Mapping[str, datetime]
    heard_at: datetime
    operations: int = 0
    new_vms: int = 0
    lifetimes: int = 0

    def record(self) -> Counter[str]:
        """Returns the number of entries that said nothing new, by project."""
        connection = self.connection
        stored_operations = operations.of_vms(connection, ((key.project, key.gce_id) for key in self.batch.keys))
        of_vms = {key: list(stored_operations.get((key.project, key.gce_id), ())) for key in self.batch.keys}
        news, replaced, doubled = self._join(of_vms)
        operations.drop(connection, replaced)
        operations.store(connection, list(news.values()))
        self.operations = len(news)
        stored = ledger.load_all(connection, of_vms)
        kept_requests.note(connection, {**self._untold(of_vms, stored), **self._unlisted(stored)}, self.heard_at)
        changed = {InstanceKey(op.project, op.target_id) for op in news.values()} | self._unlisted(stored).keys()
        entries = self._account({key: of_vms[key] for key in sorted(changed)}, stored)
        self._save(entries, stored, list(news.values()))
        return doubled

    def _join(
        self, of_vms: Mapping[InstanceKey, list[SeenOperation]]
    ) -> tuple[dict[tuple[str, str], SeenOperation], set[tuple[str, str]], Counter[str]]:
        """Joins the entries one after the other with the operations of their VMs, which it brings up to date."""
        news: dict[tuple[str, str], SeenOperation] = {}
        replaced: set[tuple[str, str]] = set()
        doubled = Counter[str]()
        for entry, operation in self.batch.said:
            ops = of_vms[InstanceKey(operation.project, operation.target_id)]
            joined = merged(ops, operation, entry.phase is Phase.FIRST)
            now = joined.operation
            if not joined.is_news:
                doubled[operation.project] += 1
                continue
            gone = joined.replaces or now.operation_id
            ops[:] = sorted(
                [*(op for op in ops if op.operation_id != gone), now], key=lambda op: (op.inserted_at, op.operation_id)
            )
            if joined.replaces is not None:
                news.pop((now.project, joined.replaces), None)
                replaced.add((now.project, joined.replaces))
            news[now.project, now.operation_id] = now
        return news, replaced, doubled

    def _unlisted(self, stored: Mapping[InstanceKey, KnownInstance]) -> dict[InstanceKey, KeptRequest]:
        return {key: one for key, one in self.batch.requests.items() if not was_listed(stored.get(key))}

    def _untold(
        self, of_vms: Mapping[InstanceKey, Sequence[SeenOperation]], stored: Mapping[InstanceKey, KnownInstance]
    ) -> dict[InstanceKey, KeptRequest]:
        """The VMs that no listing has shown and of which nothing says what they are: others are asked later."""
        return {
            key: UNTOLD
            for key, ops in of_vms.items()
            if key not in self.requested and is_untold(stored.get(key), ops, self.belonging.gpu_only)
        }

    def _account(
        self, of_vms: Mapping[InstanceKey, Sequence[SeenOperation]], stored: Mapping[InstanceKey, KnownInstance]
    ) -> dict[InstanceKey, Entry]:
        claims = claims_of(self.connection, [vm.id for vm in stored.values()])
        of_jobs = self._launched(of_vms, stored)
        entries = {}
        for key, ops in of_vms.items():
            before, requested = stored.get(key), self.requested.get(key)
            if before is None and key not in of_jobs and not self._belongs(requested):
                continue
            claimed = claims.get(before.id) if before is not None else None
            facts = KnownFacts(
                before,
                None,
                ops,
                self.heard_at,
                self.watched_since[key.project],
                claim=claimed[-1] if claimed else None,
                launched=of_jobs.get(key),
                requested=requested,
                from_entries=still_heard(ops),
            )
            with Isolated("entry_not_recorded", project=key.project, gce_id=key.gce_id):
                entry = account(key, facts, self.belonging)
                if entry is not None:
                    entries[key] = _to_look_again(entry) if was_listed(before) else entry
        return entries

    def _belongs(self, requested: VmRequested | None) -> bool:
        """Says whether the settings take a new VM in, as of one that came and went between two looks."""
        if not self.belonging.gpu_only:
            return True
        return requested is not None and (requested.shape.gpu_count > 0 or not requested.shape.is_known)

    def _launched(
        self, of_vms: Mapping[InstanceKey, Sequence[SeenOperation]], stored: Mapping[InstanceKey, KnownInstance]
    ) -> dict[InstanceKey, LaunchedFor]:
        """The jobs of these VMs: no other's name begins as theirs do."""
        by_project: dict[str, dict[str, Sequence[SeenOperation]]] = defaultdict(dict)
        for key, ops in of_vms.items():
            if any(op.target_name.startswith(_OF_A_JOB) for op in ops) or (
                key in stored and stored[key].record.attribution.job
            ):
                by_project[key.project][key.gce_id] = ops
        jobs = {}
        for project, ops_of in by_project.items():
            of_project = {key.gce_id: vm for key, vm in stored.items() if key.project == project}
            of_these = launched(self.connection, project, list(ops_of), {}, of_project, ops_of)
            jobs.update({InstanceKey(project, gce_id): job for gce_id, job in of_these.items()})
        return jobs

    def _save(
        self,
        entries: Mapping[InstanceKey, Entry],
        stored: Mapping[InstanceKey, KnownInstance],
        news: Sequence[SeenOperation],
    ) -> None:
        changes = [Change(one.record, stored.get(key), one.lifetimes, one.storage) for key, one in entries.items()]
        with running_totals.following_all(self.connection, list(entries), self.heard_at):
            written = ledger.save(self.connection, changes)
        # A list tells of what has no number yet, in Google's own words.
        events: list[Event] = [event for op in news if op.operation_id != op.name and (event := tell_failed(op))]
        events += [event for one in entries.values() for event in one.events]
        audit_log.append(self.connection, events, self.heard_at)
        self.new_vms = sum(key not in stored for key in entries)
        self.lifetimes = written.lifetimes


def _to_look_again(entry: Entry) -> Entry:
    """An event of a VM that a listing has shown: its runs are as the event says until the next listing says it again.

    What the event says of them would otherwise stay where the listing shows the VM as it was before.
    """
    if not entry.lifetimes:
        return entry
    record, last = entry.record, entry.lifetimes[-1]
    status = Status.RUNNING
    if last.ended_at is not None:
        status = Status.SUSPENDED if last.end_reason is EndReason.SUSPENDED else Status.STOPPED
    mark = record.fingerprint.removesuffix(_LOOK_AGAIN) + _LOOK_AGAIN
    return replace(entry, record=replace(record, status=status, fingerprint=mark))
