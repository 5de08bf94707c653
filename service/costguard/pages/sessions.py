"""What the page of access shows of sessions: who is signed in where, and what it means to end that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from costguard.access.session_office import SessionOffice
from costguard.access.session_rows import Session
from costguard.model.access import Principal, Role
from costguard.pages.asked import BadAddress, place_before
from costguard.pages.show import link
from costguard.pages.source import Source

_PAGE = 50
_HOW = {"link": "by a link", "oidc": "through the provider"}


@dataclass(frozen=True, slots=True)
class Sessions:
    found: Sequence[Session]
    roles: Mapping[str, Role]  # by session: what its holder is today
    mine: int  # of those shown
    next: str | None  # the address of older ones
    how: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Question:
    """Whether this session is to end, or without one all of this address."""

    session: Session | None
    address: str
    is_me: bool
    is_here: bool  # who asks is signed out by it
    action: str
    others: str  # where it is asked for all of theirs; "": this is their only one, or all is asked for already
    how: Mapping[str, str]


def sessions_page(source: Source, me: Principal, before: str) -> Sessions:
    """Raises BadAddress."""
    at = office(source)
    found = at.listing(me, place_before(before, "sessions"), _PAGE + 1)
    here, more = found[:_PAGE], None
    if len(found) > _PAGE:
        more = link("/tokens", sessions=f"{here[-1].began_at.isoformat()} {here[-1].id}")
    return Sessions(
        here, {each.id: at.role(each) for each in here}, sum(each.address == me.address for each in here), more, _HOW
    )


def question(source: Source, me: Principal, session_id: str) -> Question:
    """Raises SessionUnknown."""
    at = office(source)
    session = at.find(session_id, me)
    theirs = [each for each in at.listing(me, limit=_PAGE) if each.address == session.address]
    return Question(
        session=session,
        address=session.address,
        is_me=session.address == me.address,
        is_here=session.id == me.session,
        action=f"/sessions/{session.id}/end",
        others=link("/sessions/end", address=session.address) if len(theirs) > 1 else "",
        how=_HOW,
    )


def question_of_all(me: Principal, address: str) -> Question:
    """Raises BadAddress where it is not said whose."""
    whose = address.strip().lower()
    if not whose:
        raise BadAddress("It is not said whose sessions are to end.", "Go to the page of access, and choose there.")
    is_me = whose == me.address
    return Question(None, whose, is_me, is_me and bool(me.session), "/sessions/end", "", _HOW)


def office(source: Source) -> SessionOffice:
    return SessionOffice(source.database, source.clock, source.rules.access)
