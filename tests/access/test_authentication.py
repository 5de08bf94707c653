"""The caller, from what they show."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import select
from tests.api import rows
from tests.authenticators import SEAL, begin_session, is_good, make_principal, redeem

from costguard.access import sessions, token_rows
from costguard.access.authentication import Authenticator
from costguard.access.links import make_link
from costguard.access.rules import Access
from costguard.access.session_service import SessionService
from costguard.access.sessions import Sessions
from costguard.access.tokens import NewToken, TokenService
from costguard.db import tables
from costguard.db.transaction import Database
from costguard.errors import Conflict, Forbidden, Invalid, Missing, SignInRefused
from costguard.events import audit_log
from costguard.model.access import PERMISSIONS, Credentials, Permission, Principal, Role, Stranger, Via
from costguard.model.reminder import Request, RequestKind, Subject, SubjectKind
from costguard.reminders import request_rows

ANA, EVE, ROOT = "ana@lab.example", "eve@lab.example", "root@localhost"
ACCESS = Access(viewers=frozenset({"@lab.example"}), operators=frozenset({ANA}), admins=frozenset({"ada@lab.example"}))
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass
class House:
    """An authenticator, whatever makes what it takes, and a clock that is moved by hand."""

    database: Database
    at: datetime = NOW
    access: Access = ACCESS
    authenticators: list[Authenticator] = field(default_factory=list)

    def now(self) -> datetime:
        return self.at

    @property
    def sessions(self) -> Sessions:
        return Sessions(self.database, self, timedelta(hours=12))

    @property
    def office(self) -> TokenService:
        return TokenService(self.database, self)

    def authenticator(self) -> Authenticator:
        self.authenticators.append(
            Authenticator(self.database, self, self.access, SEAL, self.sessions, "the master's", _vouched)
        )
        return self.authenticators[-1]

    def who(self, bearer: str = "", session: str = "", iap: str = "") -> Principal | Stranger:
        return self.authenticator().who(Credentials(bearer, session, iap))

    def known(self, bearer: str = "", session: str = "", iap: str = "") -> Principal:
        caller = self.who(bearer, session, iap)
        assert isinstance(caller, Principal), caller
        return caller

    def refused(self, bearer: str = "", session: str = "", iap: str = "") -> str:
        caller = self.who(bearer, session, iap)
        assert isinstance(caller, Stranger), caller
        return caller.reason


def _vouched(assertion: str) -> str:
    if "@" not in assertion:
        raise SignInRefused("The proxy's word does not hold.", "Ask through the proxy.")
    return assertion


@pytest.fixture
def house(sqlite_database: Database) -> Iterator[House]:
    house = House(sqlite_database)
    yield house
    for authenticator in house.authenticators:
        authenticator.close()


def test_what_is_shown_must_hold(house: House) -> None:
    """The master token speaks for nobody and may all; a wrong token is refused, whatever lies next to it."""
    master = house.known("the master's")
    assert (master.address, master.role, master.via) == ("", Role.ADMIN, Via.MASTER)
    _, cookie = begin_session(house.database, house.sessions, ANA, Via.OIDC)
    assert "not known" in house.refused("the mistress's", cookie, ANA)
    assert "without a token" in house.refused()
    assert "does not hold" in house.refused(iap="nonsense")
    assert house.known(iap=ANA).role is Role.OPERATOR
    assert house.known(iap="mallory@evil.example").permissions == frozenset()


def test_a_viewer_who_operates_a_team_may_ask_something_of_vms(house: House) -> None:
    """Signed in, and with a token that they made for themselves."""
    house.access = replace(ACCESS, team_operators=frozenset({EVE}))
    signed_in = house.known(iap=EVE)
    assert signed_in.role is Role.VIEWER
    assert signed_in.may(Permission.INSTANCES)
    assert not signed_in.may(Permission.JOBS)
    _, secret = house.office.make(NewToken("laptop", lasts=DAY), signed_in)
    assert secret is not None
    assert house.known(bearer=secret).may(Permission.INSTANCES)
    house.access = ACCESS
    assert not house.known(bearer=secret).may(Permission.INSTANCES)


def test_a_session_says_who_until_it_is_over(house: House) -> None:
    """The role is that of today's settings, or of a link; an ended or expired session opens nothing."""
    session, cookie = begin_session(house.database, house.sessions, ANA.upper(), Via.OIDC)
    caller = house.known(session=cookie)
    assert (caller.address, caller.role, caller.session, caller.is_ambient) == (ANA, Role.OPERATOR, session.id, True)
    house.access = Access(viewers=frozenset({ANA}))
    assert house.known(session=cookie).role is Role.VIEWER
    _, granted = begin_session(house.database, house.sessions, "root@localhost", Via.LINK, Role.ADMIN)
    assert house.known(session=granted).is_granted
    house.at += timedelta(hours=13)
    assert house.refused(session=cookie) == "The session is over."
    house.at = NOW
    for authenticator in house.authenticators:
        authenticator.close()
    with house.database.read() as connection:
        (noted,) = (row for row in sessions.page(connection, ANA, NOW, None, 9) if row.id == session.id)
    assert noted.last_used_at == NOW, "when it was last used is noted"
    SessionService(house.database, house, house.access).end(session.id, caller)
    assert house.refused(session=cookie) == "The session is over."


def test_sessions_are_listed_and_ended_by_whose_they_are_and_by_admins(house: House) -> None:
    """An admin ends one or all of a person's; each is an event, but of people without a role; others' and expired ones
    are unknown.
    """
    office = SessionService(house.database, house, ACCESS)
    begin = partial(begin_session, house.database, house.sessions)
    here, cookie = begin(ANA, Via.OIDC, client="10.0.0.7")
    other, _ = begin(ANA, Via.LINK, Role.ADMIN)
    house.at += timedelta(hours=1)
    eves, _ = begin(EVE, Via.OIDC)
    stray, stranger = begin("mallory@evil.example", Via.OIDC)
    ana, mallory, root = (
        house.known(session=cookie),
        house.known(session=stranger),
        make_principal(address="root@lab.example"),
    )
    assert {session.id for session in office.listing(ana)} == {here.id, other.id}
    assert {session.id for session in office.listing(root)} == {here.id, other.id, eves.id, stray.id}
    assert [office.role(session) for session in (here, other, stray)] == [Role.OPERATOR, Role.ADMIN, Role.NOBODY]
    with pytest.raises(Missing):
        office.end(eves.id, ana)
    with pytest.raises(Forbidden):
        office.end_all(EVE, ana)
    with pytest.raises(Invalid):
        office.end_all("", make_principal())
    assert office.end(other.id, ana) == other
    office.end(stray.id, mallory)
    assert [session.id for session in office.end_all("", ana)] == [here.id]
    assert [session.id for session in office.end_all(EVE.upper(), root)] == [eves.id]
    with pytest.raises(Missing):
        office.end(here.id, ana)
    with house.database.read() as connection:
        texts = [stored.event.text for stored in audit_log.read(connection, kind="SessionEnded")]
    since = "begun 2026-11-20 12:00 UTC"
    assert sorted(texts) == [
        f"{ANA} ended another session of theirs, {since}.",
        f"{ANA} signed out.",
        f"root@lab.example ended a session of {EVE}, begun 2026-11-20 13:00 UTC.",
    ]
    late, _ = begin(ANA, Via.OIDC)
    house.at += timedelta(hours=12)
    assert office.listing(root) == []
    with pytest.raises(Missing):
        office.find(late.id, root)


def test_a_cookie_is_a_secret_of_which_the_database_keeps_the_digest(house: House) -> None:
    """256 random bits; nothing that the database holds opens the session, nor the id that people see, nor any other."""
    session, cookie = begin_session(house.database, house.sessions, ANA, Via.OIDC)
    other, _ = begin_session(house.database, house.sessions, ANA, Via.OIDC)
    assert len(urlsafe_b64decode(cookie + "=")) * 8 == 256
    assert house.known(session=cookie).session == session.id != other.id
    with house.database.read() as connection:
        (row,) = connection.execute(select(tables.sessions).where(tables.sessions.c.id == session.id))
        key = connection.scalars(select(tables.signing_keys.c.value)).all()
    assert row.digest == hashlib.sha256(cookie.encode()).hexdigest()
    sealed = SEAL.seal("session", {"id": session.id})  # what a cookie was before
    for wrong in (*map(str, row), *key, sealed, cookie[:-1], cookie + "A", cookie.swapcase(), "", "\udcff"):
        assert house.sessions.read(wrong) is None, wrong


def test_proofs_are_of_one_session(house: House) -> None:
    """The proof that a page sends back holds only for the caller it was made for."""
    authenticator = house.authenticator()
    ana, eve = make_principal(Role.VIEWER, ANA, Via.IAP), make_principal(Role.VIEWER, EVE, Via.IAP)
    assert authenticator.is_csrf(ana, authenticator.csrf(ana))
    assert not any(
        (
            authenticator.is_csrf(eve, authenticator.csrf(ana)),
            authenticator.is_csrf(ana, ""),
            authenticator.is_csrf(ana, "ä\udcff"),
        )
    )


def test_a_token_is_kept_as_a_digest_and_told_once(house: House) -> None:
    """The permissions are those it was given and its owner's role has today; the last use is noted."""
    ana = make_principal(Role.OPERATOR, ANA, Via.OIDC, is_granted=False)
    made, secret = house.office.make(NewToken("laptop", frozenset({Permission.READ, Permission.JOBS})), ana, "k1")
    assert secret is not None
    assert house.office.make(NewToken("laptop", made.permissions), ana, "k1") == (made, None)
    with pytest.raises(Conflict, match="another token"):
        house.office.make(NewToken("desktop"), ana, "k1")
    authenticator = house.authenticator()
    caller = authenticator.who(Credentials(secret))
    assert isinstance(caller, Principal)
    assert (caller.address, caller.permissions, caller.is_ambient) == (ANA, made.permissions, False)
    authenticator.close()
    with house.database.read() as connection:
        stored = token_rows.read(connection, made.id)
        events = audit_log.read(connection)
    assert stored is not None
    assert stored.last_used_at == NOW
    assert [stored_event.event.kind for stored_event in events] == ["TokenMade"]
    assert secret not in str(events) + str(stored)
    house.access = Access(viewers=frozenset({ANA}))
    assert house.known(secret).permissions == {Permission.READ}
    house.access = Access()
    assert house.known(secret).permissions == frozenset()


def test_a_token_is_over_when_it_expires_or_is_revoked(house: House) -> None:
    """Each says so; to revoke it again changes nothing, and others' tokens are not seen."""
    ana, eve = (make_principal(Role.OPERATOR, address, Via.OIDC, is_granted=False) for address in (ANA, EVE))
    made, secret = house.office.make(NewToken("ci", lasts=DAY), ana)
    assert secret is not None
    house.at += DAY
    assert "has expired" in house.refused(secret)
    house.at = NOW
    with pytest.raises(Missing):
        house.office.revoke(made.id, eve)
    assert house.office.listing(eve) == []
    assert [token.id for token in house.office.listing(ana)] == [made.id]
    over = house.office.revoke(made.id, ana)
    house.at += timedelta(hours=1)
    assert house.office.revoke(made.id, make_principal()) == over
    assert "was revoked" in house.refused(secret)


def test_what_a_revoked_token_asked_for_is_not_carried_out(house: House) -> None:
    """The waiting requests are refused, in the transaction that revokes; those of another token still wait."""
    ana = make_principal(Role.OPERATOR, ANA, Via.OIDC, is_granted=False)
    tokens = [house.office.make(NewToken(name, lasts=DAY), ana)[0] for name in ("ci", "laptop")]
    with house.database.write() as connection:
        subject = Subject(SubjectKind.RUN, rows.instance(connection, "trainer-7"), 4)
        for token in tokens:
            authority = replace(ana.authority, token_id=token.id)
            ask = Request(token.name, RequestKind.STOP, subject, ANA, "", "api", NOW, authority=authority)
            assert request_rows.add(connection, ask)
    house.office.revoke(tokens[0].id, ana)
    with house.database.read() as connection:
        assert [request.key for _, request in request_rows.open_requests(connection)] == ["laptop"]
        refused = request_rows.of_key(connection, "ci")
    assert refused is not None
    assert refused.status == "refused"
    assert f"was revoked by {ANA}" in refused.outcome


def test_nobody_gives_more_than_they_have(house: House) -> None:
    """A person cannot give a higher role, more permissions, another's name, or a longer life than the token that makes
    it.
    """
    ana = make_principal(Role.OPERATOR, ANA, Via.OIDC, is_granted=False)
    wrong = {
        "an admin": NewToken("x", role=Role.ADMIN),
        "cannot have: admin": NewToken("x", frozenset({Permission.READ, Permission.ADMIN})),
        "Only an admin": NewToken("x", owner=EVE),
        "1 to 100": NewToken(" "),
        "before it began": NewToken("x", lasts=timedelta()),
        "no permission at all": NewToken("x", frozenset()),
    }
    for why, new_token in wrong.items():
        with pytest.raises(Invalid, match=why):
            house.office.make(new_token, ana)
    with pytest.raises(Invalid, match="whom the token speaks for"):
        house.office.make(NewToken("x"), make_principal())
    _, secret = house.office.make(NewToken("x", lasts=DAY), ana)
    again, _ = house.office.make(NewToken("y", lasts=None), house.known(secret or ""))
    assert again.expires_at == NOW + DAY
    by_admin, secret = house.office.make(NewToken("z", owner=EVE, role=Role.VIEWER), make_principal())
    assert (by_admin.permissions, house.known(secret or "").address) == (PERMISSIONS[Role.VIEWER], EVE)


def test_a_link_signs_in_once(house: House) -> None:
    """A look does not use the link up; it is good for ten minutes."""
    code = make_link(house.database, "Root@Localhost", Role.ADMIN, NOW)
    assert is_good(house.database, code, NOW)
    assert redeem(house.database, code + "x", NOW) is None
    assert redeem(house.database, code, NOW + timedelta(minutes=10)) is None
    assert redeem(house.database, code, NOW + timedelta(minutes=9)) == ("root@localhost", Role.ADMIN)
    assert redeem(house.database, code, NOW) is None
    assert not is_good(house.database, code, NOW)


def test_a_token_of_a_links_session_ends_with_it(house: House) -> None:
    """The token ends also when the session is ended early, with its requests; tokens that it made end with it, too."""
    session, cookie = begin_session(house.database, house.sessions, ROOT, Via.LINK, Role.ADMIN)
    made, secret = house.office.make(NewToken("short"), house.known(session=cookie))
    child, of_child = house.office.make(NewToken("shorter", lasts=None), house.known(secret or ""))
    assert (made.provisional_until, child.provisional_until) == (session.expires_at, session.expires_at)
    assert house.known(of_child or "").role is Role.ADMIN
    SessionService(house.database, house, ACCESS).end(session.id, house.known(session=cookie))
    for over in (secret, of_child):
        assert "was revoked" in house.refused(over or "")
    with house.database.read() as connection:
        texts = [stored.event.text for stored in audit_log.read(connection, kind="TokenRevoked")]
    assert all(text.endswith("with the session of a link in which it was made.") for text in texts)
    assert len(texts) == 2


def test_a_token_of_a_long_links_session_ends_within_a_day(house: House) -> None:
    """The token ends so however long sessions last, and however long was requested."""
    lasting = Sessions(house.database, house, 30 * DAY)
    _, cookie = begin_session(house.database, lasting, ROOT, Via.LINK, Role.ADMIN)
    made, secret = house.office.make(NewToken("x", lasts=None), house.known(session=cookie))
    assert made.ends_at == NOW + DAY
    house.at += DAY - timedelta(seconds=1)
    assert house.known(secret or "").is_granted
    house.at += timedelta(seconds=1)
    assert house.refused(secret or "").endswith("nobody confirmed it in the time of the link's session.")


def test_a_confirmed_token_lasts_as_long_as_was_asked_for(house: House) -> None:
    """The confirmation is by an admin of the lists or on the server; never by a person with a link, nor with a token
    made there.
    """
    session, cookie = begin_session(house.database, house.sessions, ROOT, Via.LINK, Role.ADMIN)
    by_link, office = house.known(session=cookie), house.office
    made, secret = office.make(NewToken("ci", lasts=90 * DAY), by_link)
    ana, ada = (make_principal(Role.OPERATOR, ANA, Via.OIDC, is_granted=False), house.known(iap="ada@lab.example"))
    for who in (by_link, house.known(secret or "")):
        with pytest.raises(Conflict, match="came by a one-time link"):
            office.confirm(made.id, who)
    with pytest.raises(Missing):
        office.confirm(made.id, ana)
    confirmed = office.confirm(made.id, ada)
    assert (confirmed.ends_at, confirmed.confirmed_by, confirmed.confirmed_at) == (NOW + 90 * DAY, ada.address, NOW)
    assert office.confirm(made.id, make_principal()) == confirmed, "once more changes nothing"
    SessionService(house.database, house, ACCESS).end(session.id, by_link)
    house.at += 2 * DAY
    assert house.known(secret or "").link_session == ""
    with house.database.read() as connection:
        (stored,) = audit_log.read(connection, kind="TokenConfirmed")
    assert (
        stored.event.text == f"{ada.address} confirmed the token ci ({made.id}) of {ROOT}: it is good until 2027-02-18."
    )


def test_a_token_that_is_over_is_not_confirmed(house: House) -> None:
    """It stays over; and one that was never provisional needs no confirmation."""
    _, cookie = begin_session(house.database, house.sessions, ROOT, Via.LINK, Role.ADMIN)
    made, _ = house.office.make(NewToken("late"), house.known(session=cookie))
    plain, _ = house.office.make(NewToken("plain"), house.known(iap="ada@lab.example"))
    assert house.office.confirm(plain.id, make_principal()) == plain
    house.at += DAY
    with pytest.raises(Conflict, match="is over"):
        house.office.confirm(made.id, make_principal())


def test_a_token_for_another_person_counts_by_the_lists(house: House) -> None:
    """The master token made one of an admin for a viewer, and for an address on no list, whatever the lists say."""
    master = house.known("the master's")
    _, cookie = begin_session(house.database, house.sessions, ROOT, Via.LINK, Role.ADMIN)
    for by in (master, house.known(session=cookie)):
        for owner, role in ((EVE, Role.VIEWER), (ANA, Role.OPERATOR), ("x@else.example", Role.NOBODY)):
            made, secret = house.office.make(NewToken("t", owner=owner), by)
            principal = house.known(secret or "")
            assert (made.is_granted, principal.is_granted, principal.role) == (False, False, role)
            assert principal.permissions == PERMISSIONS[role]
    own, _ = house.office.make(NewToken("own"), house.known(session=cookie))
    assert own.is_granted
    granted, _ = house.office.make(NewToken("t", owner=EVE, role=Role.OPERATOR), master, grants=True)
    assert (granted.is_granted, granted.role) == (True, Role.OPERATOR)
