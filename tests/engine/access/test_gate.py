"""Who asks, from what they show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from tests.doors import SEAL, begun, is_good, redeem, somebody

from costguard.engine.access.gate import Gate
from costguard.engine.access.links import make_link
from costguard.engine.access.seal import Seal
from costguard.engine.access.session_office import SessionOffice
from costguard.engine.access.sessions import Sessions
from costguard.engine.access.tokens import NewToken, TokenOffice
from costguard.errors import (
    NobodyNamed,
    NotTheirName,
    SessionUnknown,
    SignInRefused,
    TokenKeyTaken,
    TokenRefused,
    TokenUnknown,
)
from costguard.model.access import PERMISSIONS, Credentials, Permission, Principal, Role, Stranger, Via
from costguard.policy.rules import Access
from costguard.store import facts, sessions, tokens
from costguard.store.transaction import Database

ANA, EVE = "ana@lab.example", "eve@lab.example"
ACCESS = Access(viewers=frozenset({"@lab.example"}), operators=frozenset({ANA}), admins=frozenset({"ada@lab.example"}))
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass
class House:
    """A gate, whatever makes what it takes, and a clock that is moved by hand."""

    database: Database
    at: datetime = NOW
    access: Access = ACCESS
    gates: list[Gate] = field(default_factory=list)

    def now(self) -> datetime:
        return self.at

    @property
    def sessions(self) -> Sessions:
        return Sessions(self.database, self, SEAL, timedelta(hours=12))

    @property
    def office(self) -> TokenOffice:
        return TokenOffice(self.database, self)

    def gate(self) -> Gate:
        self.gates.append(Gate(self.database, self, self.access, SEAL, self.sessions, "the master's", _vouched))
        return self.gates[-1]

    def who(self, bearer: str = "", session: str = "", iap: str = "") -> Principal | Stranger:
        return self.gate().who(Credentials(bearer, session, iap))

    def known(self, bearer: str = "", session: str = "", iap: str = "") -> Principal:
        found = self.who(bearer, session, iap)
        assert isinstance(found, Principal), found
        return found

    def refused(self, bearer: str = "", session: str = "", iap: str = "") -> str:
        found = self.who(bearer, session, iap)
        assert isinstance(found, Stranger), found
        return found.reason


def _vouched(assertion: str) -> str:
    if "@" not in assertion:
        raise SignInRefused("The proxy's word does not hold.", "Ask through the proxy.")
    return assertion


@pytest.fixture
def house(sqlite_database: Database) -> Iterator[House]:
    house = House(sqlite_database)
    yield house
    for gate in house.gates:
        gate.close()


def test_what_is_shown_must_hold(house: House) -> None:
    """The master token speaks for nobody and may all; a wrong token is refused, whatever lies beside it."""
    master = house.known("the master's")
    assert (master.address, master.role, master.via) == ("", Role.ADMIN, Via.MASTER)
    _, cookie = begun(house.database, house.sessions, ANA, Via.OIDC)
    assert "not known" in house.refused("the mistress's", cookie, ANA)
    assert "without a token" in house.refused()
    assert "does not hold" in house.refused(iap="nonsense")
    assert house.known(iap=ANA).role is Role.OPERATOR
    assert house.known(iap="mallory@evil.example").permissions == frozenset()


def test_a_session_says_who_until_it_is_over(house: House) -> None:
    """Its role is what the settings say today, or what a link gave; ended or expired it opens nothing."""
    session, cookie = begun(house.database, house.sessions, ANA.upper(), Via.OIDC)
    found = house.known(session=cookie)
    assert (found.address, found.role, found.session, found.is_ambient) == (ANA, Role.OPERATOR, session.id, True)
    house.access = Access(viewers=frozenset({ANA}))
    assert house.known(session=cookie).role is Role.VIEWER
    _, granted = begun(house.database, house.sessions, "root@localhost", Via.LINK, Role.ADMIN)
    assert house.known(session=granted).is_granted
    house.at += timedelta(hours=13)
    assert house.refused(session=cookie) == "The session is over."
    house.at = NOW
    for gate in house.gates:
        gate.close()
    with house.database.read() as connection:
        (noted,) = (each for each in sessions.page(connection, ANA, NOW, None, 9) if each.id == session.id)
    assert noted.last_used_at == NOW, "when it was last used is noted"
    SessionOffice(house.database, house, house.access).end(session.id, found)
    assert house.refused(session=cookie) == "The session is over."


def test_sessions_are_listed_and_ended_by_whose_they_are_and_by_admins(house: House) -> None:
    """One or all of a person's; each is a fact, but of who has no role; others' are not known, nor expired ones."""
    office = SessionOffice(house.database, house, ACCESS)
    begin = partial(begun, house.database, house.sessions)
    here, cookie = begin(ANA, Via.OIDC, client="10.0.0.7")
    other, _ = begin(ANA, Via.LINK, Role.ADMIN)
    house.at += timedelta(hours=1)
    eves, _ = begin(EVE, Via.OIDC)
    stray, stranger = begin("mallory@evil.example", Via.OIDC)
    ana, mallory, root = (
        house.known(session=cookie),
        house.known(session=stranger),
        somebody(address="root@lab.example"),
    )
    assert {each.id for each in office.listing(ana)} == {here.id, other.id}
    assert {each.id for each in office.listing(root)} == {here.id, other.id, eves.id, stray.id}
    assert [office.role(each) for each in (here, other, stray)] == [Role.OPERATOR, Role.ADMIN, Role.NOBODY]
    with pytest.raises(SessionUnknown):
        office.end(eves.id, ana)
    with pytest.raises(NotTheirName):
        office.end_all(EVE, ana)
    with pytest.raises(NobodyNamed):
        office.end_all("", somebody())
    assert office.end(other.id, ana) == other
    office.end(stray.id, mallory)
    assert [each.id for each in office.end_all("", ana)] == [here.id]
    assert [each.id for each in office.end_all(EVE.upper(), root)] == [eves.id]
    with pytest.raises(SessionUnknown):
        office.end(here.id, ana)
    with house.database.read() as connection:
        told = [each.fact.text for each in facts.read(connection, kind="SessionEnded")]
    since = "begun 2026-11-20 12:00 UTC"
    assert sorted(told) == [
        f"{ANA} ended another session of theirs, {since}.",
        f"{ANA} signed out.",
        f"root@lab.example ended a session of {EVE}, begun 2026-11-20 13:00 UTC.",
    ]
    late, _ = begin(ANA, Via.OIDC)
    house.at += timedelta(hours=12)
    assert office.listing(root) == []
    with pytest.raises(SessionUnknown):
        office.find(late.id, root)


def test_cookies_cannot_be_made_or_used_elsewhere(house: House) -> None:
    """One changed character, another key or another purpose, and it is nobody's."""
    _, cookie = begun(house.database, house.sessions, ANA, Via.OIDC)
    told = SEAL.opened("session", cookie)
    assert told is not None
    others = [
        cookie[:-9] + ("A" if cookie[-9] != "A" else "B") + cookie[-8:],
        "A" + cookie,
        cookie.partition(".")[0],
        "",
        "\udcff",
    ]
    others += [Seal(b"another key").seal("session", told), SEAL.seal("oidc", told), SEAL.seal("session", {})[:-2]]
    for other in others:
        assert house.sessions.read(other) is None, other


def test_proofs_are_of_one_session(house: House) -> None:
    """The proof that a page sends back holds for whoever it was made for."""
    gate = house.gate()
    ana, eve = somebody(Role.VIEWER, ANA, Via.IAP), somebody(Role.VIEWER, EVE, Via.IAP)
    assert gate.is_csrf(ana, gate.csrf(ana))
    assert not any((gate.is_csrf(eve, gate.csrf(ana)), gate.is_csrf(ana, ""), gate.is_csrf(ana, "ä\udcff")))


def test_a_token_is_kept_as_a_digest_and_told_once(house: House) -> None:
    """Its permissions are those it was given and its owner's role has today; when it was last used is noted."""
    ana = somebody(Role.OPERATOR, ANA, Via.OIDC, is_granted=False)
    made, secret = house.office.make(NewToken("laptop", frozenset({Permission.READ, Permission.JOBS})), ana, "k1")
    assert secret is not None
    assert house.office.make(NewToken("laptop", made.permissions), ana, "k1") == (made, None)
    with pytest.raises(TokenKeyTaken, match="another token"):
        house.office.make(NewToken("desktop"), ana, "k1")
    gate = house.gate()
    found = gate.who(Credentials(secret))
    assert isinstance(found, Principal)
    assert (found.address, found.permissions, found.is_ambient) == (ANA, made.permissions, False)
    gate.close()
    with house.database.read() as connection:
        stored = tokens.read(connection, made.id)
        told = facts.read(connection)
    assert stored is not None
    assert stored.last_used_at == NOW
    assert [each.fact.kind for each in told] == ["TokenMade"]
    assert secret not in str(told) + str(stored)
    house.access = Access(viewers=frozenset({ANA}))
    assert house.known(secret).permissions == {Permission.READ}
    house.access = Access()
    assert house.known(secret).permissions == frozenset()


def test_a_token_is_over_when_it_expires_or_is_revoked(house: House) -> None:
    """Each says so; to revoke it again changes nothing, and others' tokens are not seen."""
    ana, eve = (somebody(Role.OPERATOR, each, Via.OIDC, is_granted=False) for each in (ANA, EVE))
    made, secret = house.office.make(NewToken("ci", lasts=DAY), ana)
    assert secret is not None
    house.at += DAY
    assert "has expired" in house.refused(secret)
    house.at = NOW
    with pytest.raises(TokenUnknown):
        house.office.revoke(made.id, eve)
    assert house.office.listing(eve) == []
    assert [each.id for each in house.office.listing(ana)] == [made.id]
    over = house.office.revoke(made.id, ana)
    house.at += timedelta(hours=1)
    assert house.office.revoke(made.id, somebody()) == over
    assert "was revoked" in house.refused(secret)


def test_nobody_gives_more_than_they_have(house: House) -> None:
    """Not a higher role, not more permissions, not in another's name, and no longer than the token that makes it."""
    ana = somebody(Role.OPERATOR, ANA, Via.OIDC, is_granted=False)
    wrong = {
        "an admin": NewToken("x", role=Role.ADMIN),
        "cannot have: admin": NewToken("x", frozenset({Permission.READ, Permission.ADMIN})),
        "Only an admin": NewToken("x", owner=EVE),
        "1 to 100": NewToken(" "),
        "before it began": NewToken("x", lasts=timedelta()),
        "no permission at all": NewToken("x", frozenset()),
    }
    for why, asked in wrong.items():
        with pytest.raises(TokenRefused, match=why):
            house.office.make(asked, ana)
    with pytest.raises(TokenRefused, match="whom the token speaks for"):
        house.office.make(NewToken("x"), somebody())
    _, secret = house.office.make(NewToken("x", lasts=DAY), ana)
    again, _ = house.office.make(NewToken("y", lasts=None), house.known(secret or ""))
    assert again.expires_at == NOW + DAY
    by_admin, secret = house.office.make(NewToken("z", owner=EVE, role=Role.VIEWER), somebody())
    assert (by_admin.permissions, house.known(secret or "").address) == (PERMISSIONS[Role.VIEWER], EVE)


def test_a_link_signs_in_once(house: House) -> None:
    """To look at it does not use it up; it is good for ten minutes."""
    code = make_link(house.database, "Root@Localhost", Role.ADMIN, NOW)
    assert is_good(house.database, code, NOW)
    assert redeem(house.database, code + "x", NOW) is None
    assert redeem(house.database, code, NOW + timedelta(minutes=10)) is None
    assert redeem(house.database, code, NOW + timedelta(minutes=9)) == ("root@localhost", Role.ADMIN)
    assert redeem(house.database, code, NOW) is None
    assert not is_good(house.database, code, NOW)
