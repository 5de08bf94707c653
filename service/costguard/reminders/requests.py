"""Accepts requests about a VM from a page, the API or Slack: checks and stores them for the next pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo

from sqlalchemy import Connection

from costguard.access import roles
from costguard.access.roles import Actor
from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.db.types import storable
from costguard.errors import Conflict, CostguardError, Forbidden, Invalid, Missing
from costguard.events import audit_log
from costguard.ledger import answers, fleet_rows, generation
from costguard.ledger.charged import spans
from costguard.ledger.narrate import ended_text
from costguard.model.access import Principal
from costguard.model.event import new_event
from costguard.model.instance import InstanceKey
from costguard.model.moments import moment_text
from costguard.model.ports import Clock
from costguard.model.reminder import Request, RequestKind, Subject, SubjectKind
from costguard.reminders import request_rows, request_rules, watched_rows
from costguard.reminders.request_rows import StoredRequest
from costguard.reminders.request_rules import pointless
from costguard.reminders.watched_rows import WatchedRow

_WISH = {
    RequestKind.STOP: "to stop {name}",
    RequestKind.KEEP: "to keep {name}",
    RequestKind.CLAIM: "to claim {name}",
    RequestKind.DISOWN: "to disown {name}",
}
_LONGEST = 500
_GONE = "{name} no longer exists, so there is nothing left to do."
_BEFORE_RESTORE = (
    "This message is older than the last restore of Costguard's database, so nothing was done. "
    "Type /gpu for current buttons."
)
_LOOK = "Look at it as it is now, and repeat your request if you still want that."


@dataclass(frozen=True, slots=True)
class RequestReceipt:
    """The stored request; `is_new` is False where this key was used before. `text` is for the requester."""

    stored: StoredRequest
    is_new: bool
    name: str

    @property
    def text(self) -> str:
        """`Asked to stop trainer-3; the next pass carries it out.`"""
        if self.stored.status != "open":
            return self.stored.outcome
        return f"Asked {_WISH[self.stored.request.kind].format(name=self.name)}; the next pass carries it out."


@dataclass(frozen=True, slots=True)
class RequestWish:
    """The wish of a requester. Without hours a keep lasts until tomorrow morning.

    `by` names a person for whom an admin acts. `started_at` and `due_at` are what the requester saw: where they have
    changed, this or the pass refuses. A wish that comes again with its `idempotency_key` is the same one.
    """

    kind: RequestKind
    hours: int | None = None
    reason: str = ""
    idempotency_key: str | None = None
    by: str = ""
    started_at: datetime | None = None
    due_at: datetime | None = None


def ask(
    database: Database,
    clock: Clock,
    rules: Rules,
    principal: Principal,
    key: InstanceKey,
    wish: RequestWish,
    *,
    via: str = "page",
    wake: Callable[[], None],
) -> RequestReceipt:
    """Stores a request exactly as a click in Slack does; raises Missing, Forbidden, Conflict or Invalid."""
    actor = roles.actor(principal, wish.by)
    _check(wish.kind, wish.hours, wish.reason, wish.idempotency_key or "")
    now = clock.now()
    with database.write() as connection:
        instance_id = fleet_rows.instance_id(connection, key)
        if instance_id is None:
            raise Missing(
                f"No instance {key.gce_id} was ever seen in project {key.project}.",
                "Ids are Google's numbers, not names.",
            )
        row = next(iter(watched_rows.read(connection, [instance_id])), None)
        new = Request(
            key=_key(via, actor, wish.idempotency_key or f"{wish.kind.value}/{instance_id}/{now.isoformat()}"),
            kind=wish.kind,
            subject=subject_of(row) if row is not None else Subject(SubjectKind.REST, instance_id, 0),
            by=actor.address,
            user_id="",
            via=via,
            at=now,
            hours=wish.hours,
            reason=storable(wish.reason.strip()),
            due_at=wish.due_at,
            authority=actor.authority,
        )
        name = row.name if row is not None else fleet_rows.known(connection, [instance_id])[0].name
        repeated = request_rows.of_key(connection, new.key)
        if repeated is not None:
            return RequestReceipt(_same(repeated, new), False, name)
        refused = _refused(connection, rules, new, actor, row, name, wish.started_at)
        store(connection, new, row, name, None if refused is None else refused.message)
        stored = request_rows.of_key(connection, new.key)
    if refused is not None:
        raise refused
    assert stored is not None  # it was just added
    wake()
    return RequestReceipt(stored, True, name)


def ask_by_message(
    connection: Connection, rules: Rules, new: Request, refusal: str, sent_at: datetime, zone: tzinfo
) -> str | None:
    """Stores the request of a button, and returns why it was refused; None where it was not, or came before.

    `refusal` explains why the requester may request nothing. The message with the button was sent at `sent_at`; `zone`
    is the requester's.
    """
    subject = new.subject
    if any(stored.request.key == new.key for stored in request_rows.of_subject(connection, subject)):
        return None  # delivered once more, and perhaps carried out by now
    row = next(iter(watched_rows.read(connection, [subject.instance_id])), None)
    restored_at = generation.read(connection).began_at
    ownership = answers.ownership(connection, subject.instance_id)
    gone = fleet_rows.known(connection, [subject.instance_id]) if row is None else []
    name = row.name if row is not None else gone[0].name if gone else ""
    reason: str | None = refusal
    if not reason and restored_at is not None and sent_at < restored_at:
        reason = _BEFORE_RESTORE  # what it shows by its row ids may be another VM
    reason = reason or _outdated(connection, subject, row, name, zone)
    if reason is None and row is not None:
        reason = request_rules.refusal(new.kind, new.by, row, ownership, rules, new.authority, new.at)
    store(connection, new, row, name, reason)
    return reason


def _outdated(connection: Connection, subject: Subject, row: WatchedRow | None, name: str, zone: tzinfo) -> str | None:
    """Describes the fate of a message's subject, where there is nothing left to request; None while it stands."""
    if row is not None and subject_of(row) == subject:
        return None
    if not name:
        return "Costguard does not know this VM: the message is older than its database."
    if row is None:
        return _GONE.format(name=name)
    if subject.kind is SubjectKind.REST:
        return f"{name} was started again since this message. Type /gpu to see it as it is now."
    for run in spans.lifetimes_of(connection, subject.instance_id):
        life = run.span
        if run.id == subject.lifetime_id and life.ended_at is not None and life.end_reason is not None:
            by = f" by {life.ended_by}" if life.ended_by not in ("", "system") else ""
            again = "; it was started again since then" if row.started_at is not None else ""
            return f"{name} {ended_text(life.end_reason)}{by} on {moment_text(life.ended_at, zone)}{again}."
    return f"This message about {name} is out of date. Type /gpu to see it as it is now."


def _check(kind: RequestKind, hours: int | None, reason: str, key: str) -> None:
    if hours is not None and (kind is not RequestKind.KEEP or hours < 1):
        raise Invalid("Only a keep has hours, and they are 1 or more.", "Correct the hours, or leave them out.")
    if len(reason) > _LONGEST or len(key) > _LONGEST:
        raise Invalid(f"A reason or a key has at most {_LONGEST} characters.", "Shorten it.")


def store(connection: Connection, new: Request, row: WatchedRow | None, name: str, refused: str | None) -> None:
    """Stores the request and its event; where it is refused, only the event."""
    who = new.by or new.user_id
    text = f"{who} asked {_WISH[new.kind].format(name=name or 'an unknown VM')}"
    why = f": {new.reason.rstrip('.')}" if new.reason else ""
    if refused is None:
        request_rows.add(connection, new)
    kind = "RequestMade" if refused is None else "RequestRefused"
    event = new_event(
        kind,
        new.at,
        f"{text}{why}." if refused is None else f"{text}, and was refused: {refused}",
        new.key,
        vm=row.key if row is not None else None,
        name=row.name if row is not None else "",
        actor=who,
        data={
            "asked": new.kind.value,
            "subject": str(new.subject),
            "hours": new.hours,
            "reason": new.reason,
            "via": new.via,
            **_asked_with(new),
        },
    )
    audit_log.append(connection, [event], new.at)


def _asked_with(new: Request) -> dict[str, str]:
    """Returns the audit log's part of a request: the role, the token, and an admin who acted for another."""
    authority = new.authority
    if authority is None:
        return {}
    token = {"token": authority.token_id} if authority.token_id else {}
    other = {"asked_by": authority.address or "the server's operator"} if authority.address != new.by else {}
    return {"role": authority.role.value, **token, **other}


def subject_of(row: WatchedRow) -> Subject:
    """Returns the subject of a stopped VM without checking that its storage bills: the next pass does."""
    kind = SubjectKind.RUN if row.started_at is not None else SubjectKind.REST
    return Subject(kind, row.instance_id, row.lifetime_id)


def _key(via: str, actor: Actor, own: str) -> str:
    """Every person has their own keys."""
    return f"{via}/{actor.address}/{own}"


def _same(stored: StoredRequest, new: Request) -> StoredRequest:
    """The stored request, if it is the same but for the VM's present run."""

    def wish(request: Request) -> tuple[object, ...]:
        return request.kind, request.subject.instance_id, request.hours, request.reason, request.due_at

    if wish(stored.request) != wish(new):
        raise Conflict(
            "This Idempotency-Key was used for a different request.",
            "Use a new key for a new request, and repeat a key only with the same request.",
            kind="key-taken",
        )
    return stored


def _refused(
    connection: Connection,
    rules: Rules,
    new: Request,
    actor: Actor,
    row: WatchedRow | None,
    name: str,
    started_at: datetime | None,
) -> CostguardError | None:
    """Refusals that are known before the pass, which checks everything again."""
    if row is None:
        return Conflict(
            _GONE.format(name=name),
            "Its events say what became of it.",
            kind="vm-not-as-seen",
        )
    if new.kind is RequestKind.STOP and (keeper := request_rules.kept(row, rules)) is not None:
        advice = keeper.advice(name, row.key.project)
        return Conflict(keeper.why(name), f"Instead, {advice}.", kind="kept-by-another")
    ownership = answers.ownership(connection, row.instance_id)
    if refused := request_rules.refusal(new.kind, actor.address, row, ownership, rules, actor.authority, new.at):
        return Forbidden(refused, "Ask one of them.", kind="not-yours")
    if started_at is not None and row.started_at != started_at:
        return Conflict(
            f"{name} was stopped or started again since you looked, so nothing was done.", _LOOK, kind="vm-not-as-seen"
        )
    if reason := pointless(new.kind, actor.address, row, row.started_at is not None):
        return Conflict(reason, _LOOK, kind="vm-not-as-seen")
    return None
