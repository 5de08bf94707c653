"""Keeps what the choice of listings rests on from pass to pass, and counts what the listings cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, select, text, union

from costguard.daemon import hourly_counts, listings
from costguard.daemon.listings import EventStreams, ListingReason
from costguard.db.bulk import chunks
from costguard.db.remembered import remembers
from costguard.db.tables import LIVE_ATTEMPT, UNKNOWN_THERE, attempts, instances, unknown_vms
from costguard.ledger import projects
from costguard.model.action import SendReminder, StopInstance
from costguard.model.observation import Observation
from costguard.reminders import stop_rows
from costguard.reminders.request_rows import open_requests
from costguard.reminders.watched import FleetPlan

_STORED_EVERY = timedelta(minutes=5)

ReadStreams = Callable[[Connection], EventStreams]


class ListingTurns:
    """Chooses the projects that each pass lists. For one pass at a time.

    `read` gives what is known of events at this moment.
    """

    def __init__(self, read: ReadStreams) -> None:
        self._read = read
        self._next_at: dict[str, datetime] = {}  # by project, when something of it is to be decided
        self._requests: dict[str, int] = {}  # by project, of its last listing
        self._counts: Counter[str] = Counter()
        self._stored_at: datetime | None = None
        self._streams = EventStreams()  # at the last choice

    def due(self, connection: Connection, watched: Sequence[str], now: datetime) -> dict[str, ListingReason]:
        looks = {look.project: look for look in projects.read_all(connection)}
        wanted = at_work(connection) | {project for project, at in self._next_at.items() if at <= now}
        self._streams = self._read(connection)
        return listings.due(watched, looks, self._streams, wanted, now)

    def longest_age(self, project: str, now: datetime, usual: timedelta) -> timedelta:
        """Returns how old the last look at a project may be, by what was known of events at the last choice."""
        return self._streams.longest_age(project, now, usual)

    def decided(self, plan: FleetPlan, now: datetime) -> None:
        """Notes when each project is next to be decided on: its listing comes first then."""
        self._next_at = earliest_moments(plan, now)

    def listed(self, observation: Observation) -> None:
        self._requests[observation.project] = observation.requests
        self._counts[hourly_counts.LISTINGS] += 1
        self._counts[hourly_counts.REQUESTS] += observation.requests

    def passed(self, watched: Iterable[str], now: datetime) -> Mapping[str, int]:
        """A pass is over: counts what it took, and what one that lists every project takes.

        Returns the counts to store now; nothing between two times.
        """
        self._counts[hourly_counts.WITHOUT_EVENTS] += sum(self._requests.get(project, 0) for project in watched)
        if self._stored_at is not None and timedelta() <= now - self._stored_at < _STORED_EVERY:
            return {}
        counts, self._counts, self._stored_at = self._counts, Counter(), now
        return counts


def earliest_moments(plan: FleetPlan, now: datetime) -> dict[str, datetime]:
    """The first moment at which something of each project is to be decided, by the last decisions. Pure."""
    earliest: dict[str, datetime] = {}
    for decision in plan.decisions:
        moments = [at for at in (decision.next_at, decision.stop_at) if at is not None]
        if decision.due_at is not None and decision.due_at > now:
            moments.append(decision.due_at)
        if moments:
            project = decision.key.project
            earliest[project] = min(*moments, earliest.get(project, moments[0]))
    return earliest


def at_work(connection: Connection) -> set[str]:
    """The projects where a job has a VM, where a stop or a request is under way, or where a VM of ours is unknown."""
    names = set(_of_jobs_and_unknown(connection))
    ids = {stop.subject.instance_id for stop in stop_rows.open_stops(connection)}
    ids |= {instance_id for instance_id, _ in open_requests(connection)}
    for some in chunks(ids):
        names |= set(connection.scalars(select(instances.c.project).where(instances.c.id.in_(some)).distinct()))
    return names


@remembers(attempts, unknown_vms)
def _of_jobs_and_unknown(connection: Connection) -> tuple[str, ...]:
    return tuple(connection.scalars(_OF_JOBS_AND_UNKNOWN))


_OF_JOBS_AND_UNKNOWN = union(
    select(attempts.c.project).where(text(LIVE_ATTEMPT)),
    select(unknown_vms.c.project).where(text(UNKNOWN_THERE)),
)


def not_listed(plan: FleetPlan, listed: Iterable[str], watched: Iterable[str]) -> list[str]:
    """The projects in which the plan reminds of a VM or stops one, and which this pass has not listed. Pure."""
    acted_on = {action.key.project for action in plan.actions if isinstance(action, SendReminder | StopInstance)}
    return sorted((acted_on & set(watched)) - set(listed))
