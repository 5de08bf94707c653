"""The health of the guard, as /readyz and the page Health show it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from sqlalchemy import Connection

from costguard.daemon import watch_report
from costguard.daemon.listings import EventStreams, ListingReason, Rhythm
from costguard.daemon.watch_report import WatchFigures
from costguard.db import health_rows as stored
from costguard.db import project_leases
from costguard.db.health_rows import Holder
from costguard.db.lease import database_time
from costguard.db.project_leases import ShardHolder
from costguard.db.transaction import Database
from costguard.errors import StoreError
from costguard.ledger import projects, unknown_vms
from costguard.ledger.discovery import rows as discovered
from costguard.ledger.discovery.rows import SearchedPlace
from costguard.ledger.projects import ProjectLook
from costguard.ledger.unknown_vms import UnknownVm
from costguard.messages.slack_health import OutboxTrouble, SlackHealth, slack_health
from costguard.model.delivery.webhook import WebhookState
from costguard.model.mending import with_command
from costguard.model.moments import clock_text
from costguard.model.observation import Unread
from costguard.model.ports import Clock
from costguard.model.words import count_text, list_text

_T = TypeVar("_T")


class Unanswered(Exception):
    """No answer for `seconds`; the question is still open."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer for {seconds:.3g} s")
        self.seconds = seconds


class OneQuestion(Generic[_T]):
    """Bounds a question that may hang, such as one to a database behind a silent connection.

    A caller waits at most `within`. However many ask, one thread hangs; and while nothing answers, one caller waits
    for each try, the others get the last failure at once.
    """

    def __init__(self, within: timedelta, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._within_s = within.total_seconds()
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._open: _OpenQuery[_T] | None = None
        self._silent_since: float | None = None  # the beginning of the first question that was not answered in time
        self._failure: Exception | None = None  # of the last question that ended

    def ask(self, question: Callable[[], _T]) -> _T:
        """Returns the question's answer. Raises Unanswered, or what the question raises."""
        with self._lock:
            query = self._open
            if query is None or query.ended.is_set():
                query = self._open = _OpenQuery(self._monotonic())
                threading.Thread(target=self._run, args=(query, question), name="question", daemon=True).start()
            elif self._failure is not None or self._silent_since is not None:
                raise self._failure or self._unanswered(query)
        left = query.began + self._within_s - self._monotonic()
        if not query.ended.wait(max(0.0, left)):
            with self._lock:
                raise self._unanswered(query)
        return query.outcome()

    def _unanswered(self, query: _OpenQuery[_T]) -> Unanswered:
        if self._silent_since is None:
            self._silent_since = query.began
        return Unanswered(self._monotonic() - self._silent_since)

    def _run(self, query: _OpenQuery[_T], question: Callable[[], _T]) -> None:
        try:
            query.answer = [question()]
            failure = None
        except Exception as error:  # raised again where it is waited for
            query.failure = failure = error
        with self._lock:
            self._failure = failure
            if failure is None:
                self._silent_since = None
            query.ended.set()


class _OpenQuery(Generic[_T]):
    def __init__(self, began: float) -> None:
        self.began = began
        self.ended = threading.Event()
        self.answer: list[_T] = []
        self.failure: Exception | None = None

    def outcome(self) -> _T:
        if self.failure is not None:
            raise self.failure
        return self.answer[0]


_SHOWN = 3  # of VMs that the ledger does not know, and of projects that refuse for one kind of reason
ANSWER = timedelta(seconds=2)  # a monitor waits for an answer some seconds at most
_SILENT = (
    "The process that watches has said nothing for {seconds} s, so perhaps nothing is watched. "
    "It may be frozen or out of memory: see the server's log, and restart Costguard."
)


class Verdict(StrEnum):
    READY = "ready"
    DEGRADED = "degraded"  # it answers, but not all of what it shows is fresh or complete
    NOT_READY = "not ready"


class DaemonReport(Protocol):
    """The report of this replica's daemon on itself. Whether it acts, the database says."""

    @property
    def last_pass_at(self) -> datetime | None: ...
    @property
    def last_error(self) -> str: ...
    @property
    def silent_for(self) -> timedelta | None: ...


class HealthSources(Protocol):
    """The sources of a health check."""

    @property
    def database(self) -> Database: ...
    @property
    def holder(self) -> str: ...  # the name under which this replica's daemon holds the lease
    @property
    def vital_signs(self) -> OneQuestion[VitalSigns]: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def stale_after(self) -> timedelta: ...
    @property
    def rhythm(self) -> Rhythm: ...  # of listings while events come
    @property
    def status(self) -> Callable[[], DaemonReport]: ...
    @property
    def outbox_trouble(self) -> Callable[[], OutboxTrouble | None]: ...
    @property
    def socket_trouble(self) -> Callable[[], str]: ...
    @property
    def slack_refused(self) -> Callable[[], Mapping[str, int]]: ...
    @property
    def webhook_states(self) -> Callable[[Connection], Sequence[WebhookState]]: ...


@dataclass(frozen=True, slots=True)
class ProjectState:
    """`age` is that of the last look that read all of it; None where there was none. `shard` names the replica that
    watches it; None where none does. `doubt` is why its events are not relied on, so that every pass lists it; None: it
    is listed at its turn.
    """

    look: ProjectLook
    age: timedelta | None
    is_stale: bool
    shard: ShardHolder | None
    doubt: ListingReason | None = ListingReason.SILENT

    @property
    def is_late(self) -> bool:
        """Says whether it was not read completely for too long, though Google refuses nothing."""
        return self.is_stale and not self.look.is_unread

    @property
    def holder(self) -> str | None:
        return None if self.shard is None else self.shard.holder

    @property
    def held_since(self) -> datetime | None:
        return None if self.shard is None else self.shard.since


@dataclass(frozen=True, slots=True)
class VitalSigns:
    """The state of the database, all at one moment."""

    holders: Sequence[Holder] = ()
    looks: Sequence[ProjectLook] = ()
    prices_at: datetime | None = None
    webhooks: Sequence[WebhookState] = ()
    outbox: OutboxTrouble | None = None
    unknown_vms: Sequence[UnknownVm] = ()
    searches: Sequence[SearchedPlace] = ()
    shards: Sequence[ShardHolder] = ()
    watch: WatchFigures = field(default_factory=WatchFigures)


@dataclass(frozen=True, slots=True)
class Health:
    """`reasons` are why it is not ready, `warnings` what else is not as it should be; sentences for people.

    `has_slack`: Slack is set up in this process. `is_acting`: this replica's daemon holds the lease, by the database
    and its clock. Without `has_answered` the database said nothing, so that nothing but that is known.
    """

    as_of: datetime
    daemon: DaemonReport
    has_answered: bool
    is_acting: bool
    reasons: Sequence[str]
    warnings: Sequence[str]
    holders: Sequence[Holder]
    projects: Sequence[ProjectState]
    prices_at: datetime | None
    slack: SlackHealth
    has_slack: bool
    slack_refused: Mapping[str, int]
    webhooks: Sequence[WebhookState]
    watch: WatchFigures = field(default_factory=WatchFigures)

    @property
    def verdict(self) -> Verdict:
        if self.reasons:
            return Verdict.NOT_READY
        return Verdict.DEGRADED if self.warnings else Verdict.READY

    @property
    def prices_age(self) -> timedelta | None:
        return None if self.prices_at is None else max(timedelta(), self.as_of - self.prices_at)


def health(sources: HealthSources) -> Health:
    """Never raises StoreError: a database that does not answer is a reason by itself, and known within ANSWER."""
    now, daemon = sources.clock.now(), sources.status()
    signs, reasons, has_answered = VitalSigns(), [], True
    if daemon.silent_for is not None:
        reasons.append(_SILENT.format(seconds=daemon.silent_for // timedelta(seconds=1)))
    try:
        signs = sources.vital_signs.ask(lambda: _vital_signs(sources))
    except StoreError as error:
        reasons.append(str(error))
        has_answered = False
    except Unanswered as late:
        reasons.append(
            f"{sources.database.name} has not answered for {late.seconds:.0f} s, so who acts is not known. "
            "Look at its server and at what lies between."
        )
        has_answered = False
    else:
        reasons += _reasons(daemon, signs)
    slack = slack_health(signs.outbox, sources.socket_trouble(), now, sources.stale_after)
    shards = {shard.project: shard for shard in signs.shards if shard.is_held}
    streams = signs.watch.streams
    states = [_project(look, now, sources.stale_after, shards.get(look.project), streams) for look in signs.looks]
    return Health(
        as_of=now,
        daemon=daemon,
        has_answered=has_answered,
        is_acting=stored.is_held_by(signs.holders, sources.holder) and daemon.silent_for is None,
        reasons=reasons,
        warnings=[
            *_warnings(daemon, states, slack, now),
            *_of_feed(signs.watch),
            *_of_unknown(signs.unknown_vms),
            *(_of_search(place, now) for place in signs.searches if place.failed_since is not None),
            *(_of_webhook(webhook, now) for webhook in signs.webhooks if webhook.error),
        ],
        holders=signs.holders,
        projects=states,
        prices_at=signs.prices_at,
        slack=slack,
        has_slack=signs.outbox is not None,
        slack_refused=dict(sources.slack_refused()),
        webhooks=signs.webhooks,
        watch=signs.watch,
    )


def _vital_signs(sources: HealthSources) -> VitalSigns:
    with sources.database.read() as connection:
        looks = projects.read_all(connection)
        signs = VitalSigns(
            stored.holders(connection),
            looks,
            stored.prices_recorded_at(connection),
            sources.webhook_states(connection),
            unknown_vms=unknown_vms.there(connection),
            searches=discovered.places(connection),
            shards=project_leases.read(connection, database_time(connection)),
            watch=watch_report.read(connection, looks, sources.clock.now(), sources.rhythm),
        )
    return replace(signs, outbox=sources.outbox_trouble())


def _reasons(daemon: DaemonReport, signs: VitalSigns) -> Iterator[str]:
    looks = signs.looks
    if not any(holder.is_held for holder in signs.holders):
        yield (
            f"The daemon cannot work: {daemon.last_error}"
            if daemon.last_error
            else "No daemon holds the lease, so nothing is being watched. Start `costguard serve`."
        )
    if looks and all(look.is_unread and look.last_complete_at is None for look in looks):
        yield " ".join(_of_parts([(look.project, part) for look in looks for part in look.unread if part.is_whole]))
    elif all(look.last_complete_at is None for look in looks):
        yield "No project has been read whole yet. Wait for the first pass, or see `unread`."
    if signs.prices_at is None:
        yield "No prices are known, so nothing can be priced. See the server's log."


def _warnings(daemon: DaemonReport, states: Sequence[ProjectState], slack: SlackHealth, now: datetime) -> list[str]:
    late = [state.look.project for state in states if state.is_late]
    if len(late) > _SHOWN:
        warnings = [f"{_named(late)} were not read whole for too long."]
    else:
        warnings = [f"Project {project} was not read whole for too long." for project in late]
    warnings += _of_parts([(state.look.project, part) for state in states for part in state.look.unread])
    if daemon.last_error:
        warnings.append(f"The last pass failed: {daemon.last_error}")
    warnings += [f"Slack: {reason}" for reason in slack.reasons]
    if slack.is_late and slack.waiting_since is not None:
        since = clock_text(slack.waiting_since, now)
        warnings.append(f"{slack.waiting} messages wait for Slack, the oldest since {since}.")
    return warnings


def _of_parts(parts: Sequence[tuple[str, Unread]]) -> Iterator[str]:
    """Yields a sentence for each part; one for many projects of which it is not read for one kind of reason."""
    alike: dict[tuple[str, str], list[str]] = {}
    for project, part in parts:
        alike.setdefault((part.scope, part.code), []).append(project)
    for project, part in parts:
        names, why = alike[part.scope, part.code], f"({part.code.replace('_', ' ')})"
        if len(names) <= _SHOWN:
            yield _of_part(project, part)
        elif project == names[0] and part.is_whole:
            yield f"{_named(names)} are not read {why}: `costguard projects --refusing` says of each what mends it."
        elif project == names[0]:
            yield f"{part.scope} of {_named(names)} is not read {why}."


def _named(projects: Sequence[str]) -> str:
    return list_text([*projects[:_SHOWN], f"{len(projects) - _SHOWN} more"])


def _of_part(project: str, part: Unread) -> str:
    what = f"Project {project} is not read" if part.is_whole else f"{project}, {part.scope}"
    return f"{what}: {with_command(project, part)}"


def _of_feed(watch: WatchFigures) -> Iterator[str]:
    if watch.feed is None or watch.feed.is_alive:
        return
    name = watch.feed.subscription.name.rsplit("/", 1)[-1]
    why = watch.feed.subscription.error or "A heartbeat of the last 90 s should have come back, and none did."
    yield f"No events come through subscription {name}, so every project is listed in every pass. {why}"


def _of_unknown(vms: Sequence[UnknownVm]) -> Iterator[str]:
    if not vms:
        return
    names = list_text([vm.name for vm in vms[:_SHOWN]] + ([f"{len(vms) - _SHOWN} more"] if len(vms) > _SHOWN else []))
    what = "bears this installation's labels and is" if len(vms) == 1 else "bear this installation's labels and are"
    yield f"{names} {what} not in the ledger, as after a restore: `costguard db unknown` says what to do."


def _of_search(place: SearchedPlace, now: datetime) -> str:
    since = clock_text(place.failed_since, now) if place.failed_since is not None else ""
    return f"{place.place} cannot be searched for projects since {since}, so new ones are not seen: {place.failure}"


def _of_webhook(state: WebhookState, now: datetime) -> str:
    since = f", the oldest since {clock_text(state.since, now)}" if state.since is not None else ""
    waits = "waits" if state.waiting == 1 else "wait"
    return f"Webhook {state.name}: {count_text(state.waiting, 'event')} {waits}{since}: {state.error}"


def _project(
    look: ProjectLook, now: datetime, stale_after: timedelta, shard: ShardHolder | None, streams: EventStreams
) -> ProjectState:
    age = None if look.last_complete_at is None else max(timedelta(), now - look.last_complete_at)
    is_stale = age is None or age > streams.longest_age(look.project, now, stale_after)
    return ProjectState(look, age, is_stale, shard, streams.doubt(look.project, now))
