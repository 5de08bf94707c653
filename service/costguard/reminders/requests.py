"""What people ask of a VM, from a page, over REST or in Slack: checked, stored, and left to the next pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.access import requests, roles
from costguard.access.requests import StoredRequest
from costguard.access.roles import Actor
from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.db.types import storable
from costguard.errors import Conflict, CostguardError, Forbidden, Invalid, Missing
from costguard.events import facts
from costguard.ledger import answers, fleet_rows
from costguard.model.access import Principal
from costguard.model.fact import Fact
from costguard.model.instance import InstanceKey
from costguard.model.ports import Clock
from costguard.model.reminder import Ownership, Request, RequestKind, Subject, SubjectKind
from costguard.reminders import claims, watched_rows
from costguard.reminders.request_rules import pointless
from costguard.reminders.watched_rows import WatchedRow

_WISH = {
    RequestKind.STOP: "to stop {name}",
    RequestKind.KEEP: "to keep {name}",
    RequestKind.CLAIM: "for {name} to be theirs",
    RequestKind.DISOWN: "for {name} not to be theirs any more",
}
_LONGEST = 500
_LOOK = "Look at it as it is now, and ask again if that is still what you want."


@dataclass(frozen=True, slots=True)
class RequestReceipt:
    """What was stored; `is_new` is False where this key had asked for it before. `text` says it to who asked."""

    stored: StoredRequest
    is_new: bool
    name: str

    @property
    def text(self) -> str:
        """`Asked to stop trainer-3; the next pass carries it out.`"""
        if self.stored.status != "open":
            return self.stored.outcome
        asked = self.stored.request.kind
        return f"Asked {_WISH[asked].format(name=self.name)}; the next pass carries it out."


def ask(
    database: Database,
    clock: Clock,
    rules: Rules,
    principal: Principal,
    key: InstanceKey,
    kind: RequestKind,
    *,
    hours: int | None = None,
    reason: str = "",
    idempotency_key: str | None = None,
    via: str = "page",
    wake: Callable[[], None],
    by: str = "",
    started_at: datetime | None = None,
    due_at: datetime | None = None,
) -> RequestReceipt:
    """Stored exactly as a press in Slack is; raises Missing, Forbidden, Conflict or Invalid where it cannot be.

    `by` names another whom an admin acts for. `started_at` and `due_at` are what was seen: something else by now
    is refused, by this or by the pass. Without hours a keep lasts until tomorrow morning.
    """
    actor = roles.actor(principal, by)
    if hours is not None and (kind is not RequestKind.KEEP or hours < 1):
        raise Invalid("Only a keep has hours, and they are 1 or more.", "Correct the hours, or leave them out.")
    if len(reason) > _LONGEST or len(idempotency_key or "") > _LONGEST:
        raise Invalid(f"A reason or a key has at most {_LONGEST} characters.", "Say it in fewer words.")
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
            key=_key(via, actor, idempotency_key or f"{kind.value}/{instance_id}/{now.isoformat()}"),
            kind=kind,
            subject=subject_of(row) if row is not None else Subject(SubjectKind.REST, instance_id, 0),
            by=actor.address,
            user_id="",
            via=via,
            at=now,
            hours=hours,
            reason=storable(reason.strip()),
            due_at=due_at,
            authority=actor.authority,
        )
        name = row.name if row is not None else fleet_rows.known(connection, [instance_id])[0].name
        known = requests.of_key(connection, new.key)
        if known is not None:
            return RequestReceipt(_same(known, new), False, name)
        ownership = ownership_of(connection, row) if row is not None else Ownership()
        refused = _refused(rules, new, actor, row, ownership, name, started_at)
        store(connection, new, row, name, None if refused is None else refused.message)
        stored = requests.of_key(connection, new.key)
    if refused is not None:
        raise refused
    assert stored is not None  # it was just added
    wake()
    return RequestReceipt(stored, True, name)


def store(connection: Connection, new: Request, row: WatchedRow | None, name: str, refused: str | None) -> None:
    """The request and the fact that it was made; where it is refused, only the fact that it was."""
    who = new.by or new.user_id
    told = f"{who} asked {_WISH[new.kind].format(name=name or 'an unknown VM')}"
    why = f": {new.reason.rstrip('.')}" if new.reason else ""
    if refused is None:
        requests.add(connection, new)
    kind = "RequestMade" if refused is None else "RequestRefused"
    fact = Fact(
        key=f"{kind}/{new.key}",
        kind=kind,
        occurred_at=new.at,
        text=f"{told}{why}." if refused is None else f"{told}, and was refused: {refused}",
        project=row.key.project if row is not None else "",
        gce_id=row.key.gce_id if row is not None else "",
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
    facts.append(connection, [fact], new.at)


def _asked_with(new: Request) -> dict[str, str]:
    """For the audit log: with which role and which token, and who named another."""
    authority = new.authority
    if authority is None:
        return {}
    token = {"token": authority.token_id} if authority.token_id else {}
    other = {"asked_by": authority.of or "anyone who runs the server"} if authority.of != new.by else {}
    return {"role": authority.role.value, **token, **other}


def subject_of(row: WatchedRow) -> Subject:
    """Of a VM at rest without asking whether its storage bills: the next pass does."""
    about = SubjectKind.RUN if row.started_at is not None else SubjectKind.REST
    return Subject(about, row.instance_id, row.lifetime_id)


def refusal(
    rules: Rules, asked: RequestKind, actor: Actor, row: WatchedRow, ownership: Ownership, now: datetime
) -> str | None:
    """Why this person may not do this to this VM; None: they may."""
    return claims.refusal(asked, actor.address, row, ownership, rules, actor.authority, now)


def ownership_of(connection: Connection, row: WatchedRow) -> Ownership:
    return answers.ownerships(connection, [row.instance_id]).get(row.instance_id, Ownership())


def _key(via: str, actor: Actor, own: str) -> str:
    """Keys of one person mean nothing to another."""
    return f"{via}/{actor.address}/{own}"


def _same(known: StoredRequest, new: Request) -> StoredRequest:
    """Its run may be over by now, and it was still the same that was asked for."""

    def wish(of: Request) -> tuple[object, ...]:
        return of.kind, of.subject.instance_id, of.hours, of.reason, of.due_at

    if wish(known.request) != wish(new):
        raise Conflict(
            "This Idempotency-Key came with something else before.",
            "Use a new key for something new, and a key again only to repeat the very same request.",
            kind="key-taken",
        )
    return known


def _refused(
    rules: Rules,
    new: Request,
    actor: Actor,
    row: WatchedRow | None,
    ownership: Ownership,
    name: str,
    started_at: datetime | None,
) -> CostguardError | None:
    """What can be known before the pass, which looks at all of it again."""
    if row is None:
        return Conflict(
            f"{name} is gone, so there is nothing left to do.",
            "The facts say what became of it.",
            kind="vm-not-as-seen",
        )
    if refused := refusal(rules, new.kind, actor, row, ownership, new.at):
        return Forbidden(refused, "Ask one of them.", kind="not-yours")
    if started_at is not None and row.started_at != started_at:
        return Conflict(f"{name} was stopped or started again since: nothing was done.", _LOOK, kind="vm-not-as-seen")
    if found := pointless(new.kind, actor.address, row, row.started_at is not None):
        return Conflict(found, _LOOK, kind="vm-not-as-seen")
    return None
