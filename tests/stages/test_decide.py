"""A single VM at a time fetches a source, only its notes are trusted, and stages go when nobody uses them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.api.rows import NOW
from tests.stages.staged import REPORT, STAGE

from costguard.model.data import StageRules
from costguard.stages import decide, storage_price
from costguard.stages.stage import LEASE, DataStage, StageAnswer, StageReport, StageState

WANTS = replace(REPORT, wants=True)
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


def told(
    stage: DataStage | None, report: StageReport, attempt: str, after: timedelta = SECOND, *, lives: bool = True
) -> tuple[DataStage, StageAnswer]:
    return decide.reported(stage, report, attempt, NOW + after, holder_lives=lives)


def test_the_first_vm_that_asks_may_fetch_and_the_next_one_waits() -> None:
    """A VM that needs nothing of the source does not take the right to fetch."""
    stage, answer = told(None, REPORT, "reader")
    assert (answer, stage.holder) == (StageAnswer(use=True, fetch=False), "")
    stage, answer = told(stage, WANTS, "a")
    assert (answer.fetch, stage.holder) == (True, "a")
    stage, answer = told(stage, WANTS, "b")
    assert (answer.use, answer.fetch, stage.holder) == (True, False, "a")


@pytest.mark.parametrize(
    ("after", "lives", "is_b"),
    [(LEASE - SECOND, True, False), (LEASE, True, True), (SECOND, False, True)],
    ids=["still held", "not renewed", "its VM is gone"],
)
def test_the_right_to_fetch_ends_with_the_vm_or_its_silence(after: timedelta, lives: bool, is_b: bool) -> None:
    """It goes to the next one that asks."""
    stage, _ = told(None, WANTS, "a", timedelta())
    stage, answer = told(stage, WANTS, "b", after, lives=lives)
    assert answer.fetch is is_b
    assert stage.holder == ("b" if is_b else "a")


def test_the_holder_gives_it_back() -> None:
    """The holder does so at its end, or because it cannot stage any more."""
    stage, _ = told(None, WANTS, "a")
    stage, answer = told(stage, REPORT, "a")
    assert (stage.holder, answer.fetch) == ("", False)
    _, answer = told(stage, WANTS, "b")
    assert answer.fetch


def test_only_the_holders_note_is_trusted() -> None:
    """Another VM that writes into the bucket cannot vouch for what it wrote; a report without one keeps the last."""
    stage, _ = told(None, replace(WANTS, note="f" * 64), "a")
    assert stage.note == ""
    stage, _ = told(stage, replace(WANTS, note="a" * 64), "a")
    stage, answer = told(stage, replace(WANTS, note="b" * 64), "b")
    assert (stage.note, answer.note) == ("a" * 64, "a" * 64)
    stage, _ = told(stage, WANTS, "a")
    assert stage.note == "a" * 64


def test_a_stage_that_is_deleted_is_not_used_and_then_made_again() -> None:
    """While its objects go, VMs fetch without it."""
    going = replace(STAGE, state=StageState.DELETING)
    assert told(going, WANTS, "a") == (going, StageAnswer(use=False, fetch=False))
    stage, answer = told(replace(STAGE, state=StageState.DELETED, note="a" * 64), WANTS, "a")
    assert answer == StageAnswer(use=True, fetch=True)
    assert (stage.state, stage.staged, stage.note) == (StageState.FILLING, 0, "")


def test_it_is_whole_once_a_vm_has_seen_all_of_it() -> None:
    """The bytes are those of a listing, never more than the source has."""
    stage, _ = told(None, replace(REPORT, staged=REPORT.size + 5, is_whole=True), "a")
    assert (stage.state, stage.staged, stage.whole_at) == (StageState.WHOLE, REPORT.size, NOW + SECOND)


@pytest.mark.parametrize(
    ("state", "unused", "in_use", "is_due"),
    [
        (StageState.WHOLE, 14 * DAY, False, True),
        (StageState.WHOLE, 14 * DAY, True, False),
        (StageState.WHOLE, 14 * DAY - SECOND, False, False),
        (StageState.FILLING, 14 * DAY, False, True),
        (StageState.DELETING, timedelta(), True, True),
        (StageState.DELETED, 20 * DAY, False, False),
    ],
)
def test_a_stage_goes_when_no_job_has_used_it_for_long(
    state: StageState, unused: timedelta, in_use: bool, is_due: bool
) -> None:
    """Never one that an open job uses; a deletion that has begun is finished."""
    stage = replace(STAGE, state=state, used_at=NOW - unused)
    assert decide.is_due(stage, NOW, 14 * DAY, is_in_use=in_use) is is_due


def test_the_oldest_go_first_where_too_much_is_stored() -> None:
    """Stages of open jobs stay, however much that leaves."""
    stages = [replace(STAGE, digest=str(n) * 64, used_at=NOW - n * DAY, staged=10) for n in range(4)]
    assert [one.digest[0] for one in decide.over_the_most(stages, 20, frozenset())] == ["3", "2"]
    assert [one.digest[0] for one in decide.over_the_most(stages, 20, frozenset({"3" * 64}))] == ["2", "1"]
    assert decide.over_the_most(stages, None, frozenset()) == []
    assert decide.over_the_most(stages, 40, frozenset()) == []


def test_storage_costs_what_google_publishes() -> None:
    """50 GB in us-east1 are $1.00 a month (cloud.google.com/storage/pricing-examples, "Simple example")."""
    fifty = 50 << 30
    assert str(storage_price.a_month(fifty, "us-east1")) == "$1.00"
    assert str(storage_price.over(fifty, "us-east1", storage_price.MONTH / 2)) == "$0.50"
    assert storage_price.a_month(fifty, "") is None
    assert storage_price.over(fifty, "mars-north1", DAY) is None


def test_the_bucket_is_that_of_the_vms_region() -> None:
    """Others use the common one, where there is one."""
    rules = StageRules("gs://all/", "us", {"europe-west4": "gs://eu"})
    assert rules.address_in("europe-west4") == "gs://eu/costguard/stage"
    assert rules.address_in("us-east1") == "gs://all/costguard/stage"
    assert rules.locations == {"gs://eu/costguard/stage": "europe-west4", "gs://all/costguard/stage": "us"}
    assert StageRules(regions={"europe-west4": "gs://eu"}).address_in("us-east1") == ""
    assert not StageRules().is_set
