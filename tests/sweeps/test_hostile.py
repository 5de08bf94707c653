"""Sweeps that are made to cost the server: each is answered within seconds of a core."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.job_service import JobSetup, asked, priced
from tests.sweeps.sweep_story import order

from costguard.db.transaction import Database
from costguard.errors import Unavailable
from costguard.jobs.submit.check.checks import MOST_REFUSALS
from costguard.model.job import CheckpointPlan, JobCode, JobOutput
from costguard.model.money import Money
from costguard.sweeps import members
from costguard.sweeps.members import SweepOrder, planned, sharing_problems
from costguard.sweeps.quote import SweepQuote

HOUR = timedelta(hours=1)
NUMBERS = tuple(map(str, range(200)))
MOST_CPU_S = 10.0  # of all threads; each took 20 to 200 before, and takes at most 2 now


@pytest.fixture
def office(sqlite_database: Database) -> JobSetup:
    return JobSetup(priced(sqlite_database))


@contextmanager
def within_seconds_of_a_core() -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < MOST_CPU_S


def hostile(values: tuple[str, ...] = NUMBERS, **changed: Any) -> SweepOrder:
    return order(template=asked(**{"command": ("train", "{a}"), **changed}), grid={"a": values}, at_once=4)


def quoted(office: JobSetup, asked_for: SweepOrder) -> SweepQuote:
    return office.sweeps.quote(asked_for, Money.of("40"), HOUR)


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (hostile(command=("train", *["x" * 60_000 + " {a}"] * 30)), "room for 200"),
        (hostile(command=("train", *["x" * 19_000 + " {a}"] * 10)), "million characters"),
        (hostile(tuple("v" * 90 + number for number in NUMBERS), command=("train", "{a}" * 3_000)), "million"),
        (hostile(environment={f"V{number}": "x=1 " * 1000 for number in range(480)}), "room for 200"),
    ],
    ids=["large words", "members times bytes", "parameters that expand", "variables"],
)
def test_size_is_judged_before_any_member_is_made(office: JobSetup, order: SweepOrder, words: str) -> None:
    """Forty of the first, each 1.8 MB, took the server down: one cost 88 s of a core."""
    with within_seconds_of_a_core():
        quote = quoted(office, order)
    assert [refusal for refusal in quote.refusals if words in refusal.message]
    assert (list(quote.members), office.store.looked_at) == ([], [])


def test_largest_sweep_that_is_allowed_is_quoted_within_seconds(office: JobSetup) -> None:
    """Two hundred members of some ten thousand characters."""
    largest = hostile(command=("train", "x " * 5_100 + "{a}"))
    with within_seconds_of_a_core():
        quote = quoted(office, largest)
    assert len(quote.members) == 200


def test_changes_of_code_are_read_once_for_all_members(office: JobSetup) -> None:
    """Ten thousand short lines took 1 s of each of the members."""
    with within_seconds_of_a_core():
        quoted(office, hostile(code=JobCode("0" * 64, 1, 1, diff="a\n" * 10_000)))
    with within_seconds_of_a_core():
        too_long = quoted(office, hostile(code=JobCode("0" * 64, 1, 1, diff="a\n" * 130_000)))
    assert any("20,000" in refusal.message for refusal in too_long.refusals)


def test_places_that_are_all_the_same_are_compared_in_linear_time(office: JobSetup) -> None:
    """A hundred outputs of each of two hundred members: 200 million pairs, and 25,000 sentences of each member."""
    same = tuple(JobOutput("/data/model", "s3://bucket/out") for _ in range(100))
    with within_seconds_of_a_core():
        quote = quoted(office, hostile(outputs=same))
    assert len(quote.refusals) <= 2 * MOST_REFUSALS + 10
    assert any("would write to the same place" in refusal.message for refusal in quote.refusals)


def test_sentences_about_members_are_bounded(office: JobSetup) -> None:
    """A hundred wrong mounts, other ones in each member."""
    quote = quoted(office, hostile(mounts=tuple(f"{{a}}/{number}" for number in range(100))))
    assert 1 < len(quote.refusals) <= 60


def test_quote_that_nobody_waits_for_ends(office: JobSetup) -> None:
    """The quote ends between two members, and nothing is stored of a sweep that was submitted."""
    looks = 0

    def gone() -> None:
        nonlocal looks
        looks += 1
        if looks > 20:
            raise Unavailable("The client that asked has gone.")

    with pytest.raises(Unavailable):
        office.sweeps.quote(hostile(checkpoint=CheckpointPlan("gs://lab/{a}")), None, HOUR, go_on=gone)
    assert len(office.store.looked_at) <= 20
    with pytest.raises(Unavailable):
        office.sweeps.submit(hostile(), None, None, "api", go_on=gone)
    with office.database.read() as connection:
        assert connection.exec_driver_sql("select count(*) from sweeps").scalar() == 0


@given(st.lists(st.lists(st.sampled_from(["a", "a/b", "a/b/c", "ab", "b", "b/a"]), max_size=3), min_size=1, max_size=5))
def test_places_that_touch_are_found(places: list[list[str]]) -> None:
    """The result equals a look at every pair."""
    plans = []
    for number, destinations in enumerate(places, 1):
        outputs = tuple(JobOutput("/data/x", f"s3://bucket/{place}") for place in destinations)
        [plan] = planned(order(template=asked(command=("train",), outputs=outputs), grid={"a": ("1",)}), "s1")
        plans.append(members.MemberPlan(number, {}, plan.submission))
    pairs = [
        (one, other)
        for number, mine in enumerate(places)
        for theirs in places[number + 1 :]
        for one in mine
        for other in theirs
    ]
    touch = any(f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/") for one, other in pairs)
    assert bool(list(sharing_problems(plans))) == touch
