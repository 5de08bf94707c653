"""Stand-ins for the engine's ports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from costguard.errors import (
    ChannelRefused,
    CloudError,
    NotFound,
    SlackError,
    SlackLimited,
    SlackRefused,
    SlackUnavailable,
    SlackUncertain,
)
from costguard.model.delivery.message import Content, Posted
from costguard.model.delivery.person import Person
from costguard.model.instance import InstanceKey, Shape, Status
from costguard.model.keeper import Keeper
from costguard.model.launch import OperationAnswer
from costguard.model.observation import Observation, Presence, Sighting


class FakeCloud:
    """Gives each project's observation as it was put in; VMs in `gone` answer 404 when asked for."""

    def __init__(self, observations: Mapping[str, Observation] | None = None) -> None:
        self.observations = dict(observations or {})
        self.gone: set[str] = set()
        self.unreachable: set[str] = set()
        self.asked: list[str] = []
        self.since: dict[str, datetime | None] = {}

    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        self.since[project] = operations_since
        return self.observations[project]

    def forget(self, project: str, gce_ids: Collection[str]) -> None:
        """Does nothing: VMs come whole each time, unless an observation that was put in says otherwise."""

    def presence(self, key: InstanceKey, zone: str, name: str) -> Presence:
        self.asked.append(key.gce_id)
        if key.gce_id in self.unreachable:
            return Presence.NOT_KNOWN
        return Presence.GONE if key.gce_id in self.gone else Presence.THERE

    def shape(self, project: str, zone: str, machine_type: str) -> Shape | None:
        """Returns the machine types that jobs of tests have, as Google's documentation gives them."""
        return Shape(machine_type, 8, 30720) if machine_type == "n1-standard-8" else None


class HandClock:
    """Time that moves only when told."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def advance(self, span: timedelta) -> None:
        self.moment += span


@dataclass
class FakeVm:
    """A VM as Google would know it; a start is a new `started_at`."""

    gce_id: str
    status: Status = Status.RUNNING
    started_at: datetime | None = None
    labels: dict[str, str] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)


class FakeActuator:
    """VMs by (project, zone, name). A request id takes effect once, however often it comes.

    `troubles` are raised one a call, before anything is done; `lost` ones after it was done. None: no trouble.
    """

    def __init__(self, vms: Mapping[tuple[str, str, str], FakeVm] | None = None) -> None:
        self.vms = dict(vms or {})
        self.calls: list[tuple[str, str, str]] = []  # verb, id or name, request id
        self.effects: list[tuple[str, str]] = []  # verb, the VM's id
        self.troubles: list[CloudError | None] = []
        self.lost: list[CloudError | None] = []
        self.looks: list[CloudError | None] = []
        self.operations_read: list[tuple[str, str, str]] = []  # the keeper, the VM's name, the operation
        self.kept_answer: OperationAnswer | None = None
        self._operations: dict[str, str] = {}

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        _raise_next(self.looks)
        vm = self.vms.get((project, zone, name))
        return (
            Sighting(vm.gce_id, vm.status, vm.started_at, dict(vm.labels), dict(vm.origin)) if vm is not None else None
        )

    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str:
        return self._begin("stop", Status.STOPPING, project, zone, instance, request_id)

    def stop_kept(self, keeper: Keeper, address: tuple[str, str, str], gce_id: str, request_id: str) -> str:
        """Notes it as `stop_kept group`; the keeper keeps the VM, which comes to rest."""
        return self._begin(f"stop_kept {keeper.kind}", Status.STOPPING, *address[:2], gce_id, request_id)

    def kept_operation(self, keeper: Keeper, address: tuple[str, str, str], operation: str) -> OperationAnswer | None:
        self.operations_read.append((keeper.kind.value, address[2], operation))
        _raise_next(self.troubles)
        return self.kept_answer

    def _begin(self, verb: str, status: Status, project: str, zone: str, instance: str, request_id: str) -> str:
        self.calls.append((verb, instance, request_id))
        _raise_next(self.troubles)
        if request_id not in self._operations:
            vm = self._at(project, zone, instance)
            self._operations[request_id] = str(9000 + len(self._operations))
            self.effects.append((verb, vm.gce_id))
            vm.status = status
        _raise_next(self.lost)
        return self._operations[request_id]

    def _at(self, project: str, zone: str, instance: str) -> FakeVm:
        for (owner, where, name), vm in self.vms.items():
            if (owner, where) == (project, zone) and instance in (name, vm.gce_id):
                return vm
        raise NotFound(f"There is no instance {instance} in {zone} of project {project}.")


def _raise_next(troubles: list[CloudError | None]) -> None:
    trouble = troubles.pop(0) if troubles else None
    if trouble is not None:
        raise trouble


@dataclass
class FakePost:
    """A message that stands in the fake Slack."""

    key: str
    channel: str
    ts: str
    thread_ts: str
    content: Content
    at: datetime


class FakeNotifier:
    """A Slack in memory, in which `#ops` has the id `C-ops`. It can be slow to take messages, deaf or down.

    `down`: nothing is done. `lose_answers`: so many calls do their work, and nobody hears of it. `revoked`: the token.
    `closed`: channels that refuse. `wrong`: keys of messages that Slack calls wrong. `limit` a channel by an entry
    in `limited`: until when. A look-up obeys the entry "people", a search in history the entry "history".
    `fixed`: keys of messages whose time for edits is over.
    """

    def __init__(self, clock: HandClock, people: Sequence[Person] = ()) -> None:
        self._clock = clock
        self.people = list(people)
        self.posts: list[FakePost] = []
        self.ephemerals: list[tuple[str, str]] = []  # channel, user id
        self.edits: list[tuple[str, Content]] = []  # key, what it shows since
        self.calls: list[tuple[str, str, datetime]] = []  # method, channel or address, when
        self.down = False
        self.revoked = False
        self.lose_answers = 0
        self.closed: set[str] = set()
        self.wrong: set[str] = set()
        self.fixed: set[str] = set()
        self.limited: dict[str, datetime] = {}

    def keys(self, channel: str | None = None) -> list[str]:
        """Returns keys of all messages, or of a channel's, in the order in which they came."""
        return [post.key for post in self.posts if channel is None or post.channel == _slack_id(channel)]

    def delete(self, key: str) -> None:
        """Deletes a message as a person would, in Slack."""
        self.posts = [post for post in self.posts if post.key != key]

    def post(self, channel: str, content: Content, key: str, thread_ts: str = "") -> Posted:
        self._called("post", channel)
        place = _slack_id(channel)
        if key in self.wrong:
            raise SlackError("Slack calls the message wrong.", code="invalid_blocks")
        if thread_ts and not any((post.channel, post.ts) == (place, thread_ts) for post in self.posts):
            raise SlackError("There is no such thread.", code="thread_not_found")
        posted = Posted(place, f"{1000 + len(self.calls)}.000")
        self.posts.append(FakePost(key, place, posted.ts, thread_ts, content, self._clock.now()))
        self._answered()
        return posted

    def update(self, at: Posted, content: Content, key: str) -> None:
        self._called("update", at.channel)
        for post in self.posts:
            if (post.channel, post.ts) == (at.channel, at.ts):
                if post.key in self.fixed:
                    raise SlackError("The time for edits is over.", code="edit_window_closed")
                post.content = content
                self.edits.append((key, content))
                self._answered()
                return
        raise SlackError("There is no such message.", code="message_not_found")

    def post_ephemeral(self, channel: str, user_id: str, content: Content, thread_ts: str = "") -> None:
        self._called("ephemeral", channel)
        self.ephemerals.append((channel, user_id))
        self._answered()

    def find(self, channel: str, key: str, since: datetime, thread_ts: str = "") -> Posted | None:
        self._called("find", "history", channel)
        for post in self.posts:
            if (post.key, post.channel, post.thread_ts) == (key, _slack_id(channel), thread_ts) and post.at >= since:
                return Posted(post.channel, post.ts)
        return None

    def person_of(self, address: str) -> Person | None:
        self._called("person_of", "people", address)
        return next((person for person in self.people if person.address == address), None)

    def person_by_id(self, user_id: str) -> Person | None:
        self._called("person_by_id", "people", user_id)
        return next((person for person in self.people if person.user_id == user_id), None)

    def open_direct(self, user_id: str) -> str:
        self._called("open_direct", "people", user_id)
        return f"D-{user_id}"

    def _called(self, method: str, channel: str, target: str = "") -> None:
        now = self._clock.now()
        self.calls.append((method, target or channel, now))
        if self.down:
            raise SlackUnavailable("Slack does not answer.")
        if self.revoked:
            raise SlackRefused("The token was revoked.", code="token_revoked")
        if _slack_id(channel) in {_slack_id(closed) for closed in self.closed}:
            raise ChannelRefused(f"{channel} is archived.", code="is_archived")
        until = self.limited.get(_slack_id(channel), now)
        if until > now:
            raise SlackLimited("Too fast.", (until - now).total_seconds())

    def _answered(self) -> None:
        if self.lose_answers > 0:
            self.lose_answers -= 1
            raise SlackUncertain("The answer was lost.")


def _slack_id(channel: str) -> str:
    return f"C-{channel[1:]}" if channel.startswith("#") else channel
