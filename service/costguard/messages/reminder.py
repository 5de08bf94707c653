"""Reminders at the moment they are sent: current figures, current state, and whether they still apply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.ledger import history
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.ledger.narrate import after_text, ended_text
from costguard.messages import cards
from costguard.messages.outbox import Composed, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.model.action import StopOutcome
from costguard.model.delivery.message import Button, ReminderContent, ReminderState, StateKind, VmCard
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.moments import moment_text
from costguard.model.money import priced_text
from costguard.model.reminder import Claim, Keep, RequestKind, Subject, SubjectKind
from costguard.reminders import gather, request_rows, slack_accounts, stop_rows
from costguard.reminders.context import PlanContext
from costguard.reminders.request_rows import StoredRequest
from costguard.reminders.stop_rows import StopRecord
from costguard.reminders.watched import Decision, WatchedVm, subject_of

_ASKING = frozenset({StateKind.OPEN, StateKind.FAILED})
_NOT_NOW = "It is no longer due. You will be reminded when it is idle or past its limit."
_REQUESTED = {
    RequestKind.STOP: "requested a stop",
    RequestKind.KEEP: "requested to keep it",
    RequestKind.CLAIM: "claimed it",
    RequestKind.DISOWN: "said that it is not theirs",
}


@dataclass(frozen=True)
class _ReminderScene:
    """The subject of messages and what is decided about it now; `vm` and `decision` are None when it is over."""

    connection: Connection
    accrual: Accrual
    rules: Rules
    subject: Subject
    stops: Sequence[StopRecord]
    requests: Sequence[StoredRequest]
    vm: WatchedVm | None
    decision: Decision | None

    @property
    def now(self) -> datetime:
        return self.accrual.now

    @cached_property
    def runs(self) -> Sequence[history.LifetimeView]:
        """All runs of the VM with their costs, the latest first."""
        return history.runs_of(self.connection, self.accrual, self.subject.instance_id)

    @property
    def life(self) -> Lifetime | None:
        """The run that the subject names; None where the ledger does not have it any more."""
        return next((run.stored.span for run in self.runs if run.stored.id == self.subject.lifetime_id), None)

    @property
    def is_due(self) -> bool:
        decision = self.decision
        return (
            decision is not None and decision.is_known and decision.due_at is not None and decision.due_at <= self.now
        )

    @property
    def is_quiet(self) -> bool:
        if self.vm is None:
            return False
        people = slack_accounts.of_addresses(self.connection, [self.vm.owner])
        return PlanContext(self.rules, people, self.now).quiet_until(self.vm, self.now) is not None

    def owners_zone(self, owner: str) -> ZoneInfo:
        lookups = slack_accounts.of_addresses(self.connection, [owner])
        return cards.zone_of(lookups.get(owner.lower()), self.rules)

    def card(self, url: str) -> VmCard | None:
        """Makes the card of a VM; None where the ledger does not know it."""
        since = _since(self)
        card = cards.card(self.connection, self.accrual, self.rules, self.subject, since, url)
        if card is None or self.decision is None or not self.decision.together:
            return card
        return cards.of_pool(self.connection, self.accrual, self.rules, card, self.decision.together, url)


class ReminderComposer:
    """`url` is the dashboard's address; "" without one."""

    def __init__(self, rules: Rules, url: str = "") -> None:
        self._rules = rules
        self._url = url

    def __call__(self, connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn:
        """The content now; before it is sent, also whether it is still true."""
        assert message.subject is not None  # reminders have both
        assert message.target is not None
        scene = self._scene(connection, message.subject, now)
        state = _state(scene, message)
        asks = state.kind in _ASKING
        if message.status != "accepted" and not (asks and scene.is_due):
            return Withdrawn(state.sentence or "it is no longer due")
        if message.status != "accepted" and scene.is_quiet:
            return Withdrawn("quiet hours began before Slack accepted it")
        card = scene.card(self._url)
        if card is None:
            return Withdrawn("the VM is not in the ledger")
        decision = scene.decision
        content = ReminderContent(
            card=card,
            stage=message.stage,
            target=message.target,
            reason=str(message.data.get("reason", "")),
            state=state,
            buttons=cards.buttons(card, now, scene.owners_zone(card.owner)) if asks else (),
            due_at=decision.due_at if decision is not None else None,
            stop_at=decision.stop_at if decision is not None and asks and not self._rules.is_shadow else None,
        )
        return Composed(content, _shown(scene, state), is_final=state.kind is StateKind.ENDED)

    def changed(self, connection: Connection, live: Sequence[StoredMessage], now: datetime) -> list[StoredMessage]:
        """Messages that show an outdated state. The fleet is read once for all of them."""
        messages = [message for message in live if message.subject is not None]
        scenes = self._scenes(connection, [message.subject for message in messages if message.subject], now)
        return [
            message
            for message, scene in zip(messages, scenes, strict=True)
            # What a message shows was true when its zone was last read.
            if (scene.decision is None or scene.decision.is_known)
            and _shown(scene, _state(scene, message)) != message.shown
        ]

    def cards(
        self, connection: Connection, subjects: Sequence[Subject], now: datetime
    ) -> list[tuple[VmCard, tuple[Button, ...], str]]:
        """Each subject's card, buttons, and what happens next; subjects that are over are left out."""
        rows = []
        for scene in self._scenes(connection, subjects, now):
            card = scene.card(self._url)
            if card is not None and scene.decision is not None:
                buttons = cards.buttons(card, now, scene.owners_zone(card.owner))
                rows.append((card, buttons, card.disk_note or card.never_stopped or scene.decision.reason))
        return rows

    def _scene(self, connection: Connection, subject: Subject, now: datetime) -> _ReminderScene:
        return self._scenes(connection, [subject], now)[0]

    def _scenes(self, connection: Connection, subjects: Sequence[Subject], now: datetime) -> list[_ReminderScene]:
        """The fleet is read once for all of them, and equal subjects share a scene, which remembers what it read."""
        ids = {subject.instance_id for subject in subjects}
        plan, fleet = gather.look_at(connection, self._rules, now, ids)
        stops, requests = stop_rows.of_subjects(connection, subjects), request_rows.of_subjects(connection, subjects)
        decided = {subject_of(vm): (vm, decision) for vm, decision in zip(fleet, plan.decisions, strict=True)}
        accrual = accrual_at(connection, now)
        scenes = {
            subject: _ReminderScene(
                connection,
                accrual,
                self._rules,
                subject,
                stops.get(subject, ()),
                requests.get(subject, ()),
                *decided.get(subject, (None, None)),
            )
            for subject in set(subjects)
        }
        return [scenes[subject] for subject in subjects]


def shown_sentence(shown: str) -> str:
    """The sentence that a message shows, from its stored state; "" while it waits for an answer."""
    kind, _, rest = shown.partition("|")
    return rest.rsplit("|", 3)[0] if kind in _ASKING and rest.count("|") >= 3 else rest


def _shown(scene: _ReminderScene, state: ReminderState) -> str:
    """The part of a message that may change. A button carries its due time: a moved one makes it stale."""
    shown = f"{state.kind.value}|{state.sentence}"
    if state.kind not in _ASKING or scene.vm is None or scene.decision is None:
        return shown
    return f"{shown}|{scene.decision.due_at}|{scene.decision.stop_at}|{scene.vm.owner}"


def _since(scene: _ReminderScene) -> datetime:
    if scene.vm is not None:
        return scene.vm.running_since or scene.vm.rest_since or scene.now
    before = scene.life
    if before is None:
        return scene.now
    return before.started_at if scene.subject.kind is SubjectKind.RUN else before.ended_at or scene.now


def _state(scene: _ReminderScene, message: StoredMessage) -> ReminderState:
    if scene.vm is None:
        return _over(scene)
    answers: list[Keep | Claim] = sorted([*scene.vm.keeps, *scene.vm.claims], key=lambda answer: answer.at)
    if len(answers) > message.cycle:
        return _answered(answers[message.cycle], scene.owners_zone(scene.vm.owner))
    pending = [request for request in scene.vm.requests if request.subject == scene.subject]
    if pending:
        return ReminderState(StateKind.ASKED, f"{pending[-1].by} {_REQUESTED[pending[-1].kind]}.", pending[-1].at)
    stops = scene.stops
    if stops and scene.vm.stop in stop_rows.OPEN:
        return ReminderState(StateKind.ASKED, f"It is being stopped: {stops[-1].reason}", stops[-1].intended_at)
    failed = [stop for stop in stops if stop.outcome is StopOutcome.FAILED]
    if failed and scene.vm.stop is StopOutcome.FAILED:
        return ReminderState(StateKind.FAILED, f"It could not be stopped: {failed[-1].error}", failed[-1].settled_at)
    if cancelled := _done_stops(scene):
        return ReminderState(StateKind.ASKED, cancelled[-1].outcome, cancelled[-1].settled_at)
    refused = [request for request in scene.requests if request.status == "refused"]
    if refused and refused[-1].settled_at is not None and refused[-1].settled_at >= message.intended_at:
        return ReminderState(StateKind.FAILED, refused[-1].outcome, refused[-1].settled_at)
    is_known = scene.decision is not None and scene.decision.is_known
    return ReminderState(StateKind.OPEN, _NOT_NOW if is_known and not scene.is_due else "")


def _done_stops(scene: _ReminderScene) -> list[StoredRequest]:
    """Carried-out stops of a VM that still runs: its job was cancelled."""
    return [
        request for request in scene.requests if request.status == "done" and request.request.kind is RequestKind.STOP
    ]


def _answered(answer: Keep | Claim, zone: ZoneInfo) -> ReminderState:
    if isinstance(answer, Claim):
        whose = f"It is {answer.owner}'s now" if answer.owner else "It is unowned until someone claims it"
        return ReminderState(StateKind.REASSIGNED, f"{answer.by} changed its owner. {whose}.", answer.at)
    why = f": {answer.reason}" if answer.reason else ""
    return ReminderState(
        StateKind.KEPT, f"Kept by {answer.by} until {moment_text(answer.until, zone, answer.at)}{why}.", answer.at
    )


def _over(scene: _ReminderScene) -> ReminderState:
    """The outcome: there is nothing left to answer."""
    if scene.subject.kind is SubjectKind.REST:
        return ReminderState(StateKind.ENDED, "It was started again, was deleted, or no longer has disks.")
    life = scene.life
    if life is None or life.ended_at is None:
        return ReminderState(StateKind.ENDED, "It no longer exists.")
    by = _by(scene, life)
    cost = _cost(scene, life)
    words = ended_text(life.end_reason or EndReason.UNKNOWN)
    return ReminderState(StateKind.ENDED, f"It {words} {after_text(life)}{by}; that run cost {cost}.", life.ended_at)


def _by(scene: _ReminderScene, life: Lifetime) -> str:
    """Names the actor of its end: for Costguard's own stops the requester or the rule, not Costguard's service
    account.
    """
    ours = [stop for stop in scene.stops if stop.outcome in {StopOutcome.ASKED, StopOutcome.DONE}]
    if ours and life.end_reason in {EndReason.STOPPED, EndReason.SUSPENDED}:
        requesters = {request.request.id: request.request.by for request in scene.requests}
        by = requesters.get(ours[-1].request_id)
        return f", as requested by {by}" if by else ", because no one answered"
    if not ours and life.end_reason is EndReason.DELETED and (cancelled := _done_stops(scene)):
        return f", as requested by {cancelled[-1].request.by}"
    return f" by {life.ended_by}" if life.ended_by not in ("", "system") else ""


def _cost(scene: _ReminderScene, life: Lifetime) -> str:
    for view in scene.runs:
        if view.stored.id in (life.id, scene.subject.lifetime_id):
            return priced_text(view.cost, nothing="an unknown amount")
    return "an unknown amount"
