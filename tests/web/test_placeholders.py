"""A text that is compressed once and becomes each person's own."""

from __future__ import annotations

import gzip
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st
from tests.authenticators import make_principal

from costguard.model.access import Role, Via
from costguard.web.placeholders import ADDRESS, CSRF, INITIAL, SharedText, filling, stand_in

_MARKS = [mark.encode() for mark in (ADDRESS, INITIAL, CSRF)]
_PIECES = st.lists(st.one_of(st.binary(max_size=300), st.sampled_from(_MARKS)), max_size=20)


@given(_PIECES, st.lists(st.binary(max_size=200_000), min_size=3, max_size=3))
def test_a_filled_text_is_the_text_with_its_marks_replaced(pieces: list[bytes], values: list[bytes]) -> None:
    """Plain and unpacked by Python's own gzip, whatever stands in it and is filled in, more than a stored block too."""
    text, filled = b"".join(pieces), dict(zip(_MARKS, values, strict=True))
    expected = text
    for mark in _MARKS:  # no value of these holds a mark: they are random
        expected = expected.replace(mark, filled[mark])
    shared_text = SharedText(text)
    assert shared_text.filled(filled) == expected
    assert gzip.decompress(shared_text.zipped(filled)) == expected


def test_compressing_a_cut_text_costs_little_size() -> None:
    """A page with a dozen holes is hardly larger than it would be without."""
    line = "<tr><td>trainer-{0}</td><td>{1}</td><td>us-central1-a</td></tr>"
    lines = [line.format(number, sha256(b"%d" % number).hexdigest()) for number in range(200)]
    text = "".join([*lines, CSRF, *lines[:50], INITIAL, ADDRESS]).encode()
    size = len(SharedText(text).zipped(filling(make_principal(Role.VIEWER, "ada@lab.example"), "c" * 64)))
    assert size < 1.3 * len(gzip.compress(text))


def test_what_is_filled_in_is_escaped() -> None:
    """An address may hold what would be markup."""
    person = make_principal(Role.VIEWER, '"<script>"@lab.example', Via.LINK)
    page = SharedText(f"<p title='{ADDRESS}'>{INITIAL}</p>".encode()).filled(filling(person, "proof"))
    assert b"<script>" not in page
    assert page.count(b"&#34;") == 3


def test_a_stand_in_has_nothing_of_the_person() -> None:
    """The exception is what they may do, and by which way they came."""
    ada, bob = (make_principal(Role.OPERATOR, address, Via.LINK) for address in ("ada@lab.example", "bob@lab.example"))
    assert stand_in(ada) == stand_in(bob)
    assert "ada" not in repr(stand_in(ada))
    assert stand_in(ada).permissions == ada.permissions
    assert stand_in(ada) != stand_in(make_principal(Role.VIEWER, "ada@lab.example", Via.LINK))
    assert stand_in(ada) != stand_in(make_principal(Role.OPERATOR, "", Via.LINK))
    assert filling(ada, "proof")[INITIAL.encode()] == b"a"
