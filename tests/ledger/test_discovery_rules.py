"""Searches add projects to what is watched, and it is decided when a project that searches do not show is let go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.ledger.discovery.rules import (
    EVERY,
    MISSES,
    OwnLook,
    SearchResult,
    WatchedProject,
    WatchScope,
    due_projects,
    is_due,
    judge,
    refusal_of,
    watched_projects,
)
from costguard.model.observation import FoundProject, PlaceSearch, Unread

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ORG = "organizations/1"
SCOPE = WatchScope(places=(ORG,))
DENIED = Unread("project", "Grant the role.", "permission")
GONE = Unread("project", "Project #12 has been deleted.", "permission")
FAILED = Unread("project", "503.", "unavailable")


def _shown(*projects: str) -> PlaceSearch:
    return PlaceSearch(ORG, tuple(FoundProject(f"1{number}", name) for number, name in enumerate(projects)))


def _searched(rounds: int, look: OwnLook | None, search: PlaceSearch | None = None) -> list[SearchResult]:
    """Returns what each search changes of a project that was found once; `look` is what the guard sees."""
    stored = {"lab": WatchedProject("lab", "10", NOW, NOW)}
    results = []
    for number in range(1, rounds + 1):
        looks = {} if look is None else {"lab": look}
        results.append(judge(SCOPE, stored, looks, [search or _shown("other")], NOW + number * EVERY))
        stored |= {row.project: row for row in results[-1].rows}
    return results


def _empty(at: datetime = NOW + MISSES * EVERY, unread: tuple[Unread, ...] = (), vms: int = 0) -> OwnLook:
    return OwnLook(at, vms, unread)


def test_a_project_that_a_search_shows_is_watched() -> None:
    """It is new once, and its row holds when it was found first and last."""
    first = judge(SCOPE, {}, {}, [_shown("lab")], NOW)
    assert [row.project for row in first.appeared] == ["lab"]
    again = judge(SCOPE, {row.project: row for row in first.rows}, {}, [_shown("lab")], NOW + EVERY)
    assert again.appeared == ()
    (row,) = again.rows
    assert (row.found_at, row.last_found_at, row.number) == (NOW, NOW + EVERY, "10")


def test_an_empty_project_is_let_go_after_three_searches_over_twenty_minutes() -> None:
    """It is not let go after one, and not after two."""
    results = _searched(MISSES, _empty())
    assert [[row.project for row in result.gone] for result in results] == [[], [], ["lab"]]
    assert results[-1].gone[0].gone_because == "it has no VMs any more"


@pytest.mark.parametrize(
    ("look", "why"),
    [
        (_empty(vms=1), "the ledger holds a VM of it that is not gone"),
        (_empty(at=NOW), "its last whole look is older than the first search that missed it"),
        (_empty(unread=(Unread("us-central1-a", "503", "unavailable"),)), "a zone of it could not be read"),
        (_empty(unread=(DENIED,)), "it refuses, so that nothing is known of it"),
        (_empty(unread=(FAILED,)), "Google does not answer"),
        (OwnLook(None, 0), "it was never read whole"),
        (None, "it was never looked at"),
    ],
)
def test_a_project_that_may_have_vms_is_never_let_go(look: OwnLook | None, why: str) -> None:
    """It stays watched however often searches do not show it: Asset Inventory is not a synchronous control plane."""
    assert [result.gone for result in _searched(20, look)] == [()] * 20, why


@pytest.mark.parametrize("unread", [GONE, Unread("project", "404: not found.", "not_found")])
def test_a_deleted_project_is_let_go_although_it_cannot_be_read(unread: Unread) -> None:
    """Google says that there is none any more, and searches agree; its VMs in the ledger do not keep it."""
    results = _searched(MISSES, _empty(at=NOW, unread=(unread,), vms=3))
    assert [len(result.gone) for result in results] == [0, 0, 1]


def test_a_search_that_failed_changes_nothing() -> None:
    """Neither does one of two places, of what is missing: the project may be in the other."""
    failed = PlaceSearch(ORG, unread=FAILED)
    assert [result for result in _searched(5, _empty(), failed) if result != SearchResult()] == []
    both = WatchScope(places=(ORG, "folders/2"))
    stored = {"lab": WatchedProject("lab", "10", NOW, NOW)}
    half = judge(both, stored, {"lab": _empty()}, [_shown("new"), PlaceSearch("folders/2", unread=FAILED)], NOW + EVERY)
    assert [row.project for row in half.rows] == ["new"]
    unsearched = judge(both, stored, {"lab": _empty()}, [_shown("new")], NOW + EVERY)
    assert [row.project for row in unsearched.rows] == ["new"]


def test_a_project_that_is_found_again_begins_anew() -> None:
    """Two misses, a hit and two misses let nothing go; what was let go is watched again, with its first date."""
    row = WatchedProject("lab", "10", NOW, NOW, missed=2, missing_since=NOW)
    (back,) = judge(SCOPE, {"lab": row}, {"lab": _empty()}, [_shown("lab")], NOW + EVERY).rows
    assert (back.missed, back.missing_since) == (0, None)
    over = WatchedProject("lab", "10", NOW, NOW, 3, NOW, NOW + EVERY, "it has no VMs any more")
    result = judge(SCOPE, {"lab": over}, {}, [_shown("lab")], NOW + 2 * EVERY)
    assert [(row.project, row.gone_at, row.found_at) for row in result.appeared] == [("lab", None, NOW)]


def test_a_number_without_an_id_is_named_by_the_row_that_has_it() -> None:
    """A number that no row has is reported, and no project is watched under a number."""
    stored = {"lab": WatchedProject("lab", "10", NOW, NOW)}
    search = PlaceSearch(ORG, (FoundProject("10"), FoundProject("77")))
    result = judge(SCOPE, stored, {}, [search], NOW + EVERY)
    assert (result.unnamed, [row.project for row in result.rows], result.gone) == (("77",), ["lab"], ())


def test_what_is_watched_is_the_union_less_what_is_excluded() -> None:
    """Listed projects come first and in their order; patterns count for both."""
    scope = WatchScope(("zeta", "sandbox-b", "alpha"), (ORG,), ("sandbox-*", "old-??"))
    rows = [
        WatchedProject("lab", "1", NOW, NOW),
        WatchedProject("old-17", "2", NOW, NOW),
        WatchedProject("alpha", "3", NOW, NOW),
        WatchedProject("left", "4", NOW, NOW, gone_at=NOW),
        WatchedProject("refusing", refused_since=NOW),  # it was listed once, and is not looked at any more
    ]
    assert watched_projects(scope, rows, ["lab", "was-listed", "left"]) == ("zeta", "alpha", "lab", "was-listed")
    assert watched_projects(WatchScope(("zeta", "alpha"), (), ("z*",)), rows, ["lab"]) == ("alpha",)


def test_a_listed_project_is_never_let_go() -> None:
    """Searches do not count for it, nor for an excluded one, whose watch ends with the settings."""
    scope = WatchScope(("lab",), (ORG,), ("left-out",))
    stored = {"lab": WatchedProject("lab", "1", NOW, NOW, missed=9, missing_since=NOW - timedelta(days=1))}
    looks = {"lab": _empty(), "left-out": _empty()}
    assert judge(scope, stored, looks, [_shown("left-out")], NOW + EVERY) == SearchResult()


def test_a_project_that_refuses_is_asked_after_as_long_again_as_it_has_refused() -> None:
    """After a minute, two, four, eight, sixteen, and every ten minutes from then on."""
    row, tried, minutes = WatchedProject("lab", "1", NOW, NOW, refused_since=NOW), NOW, []
    for minute in range(1, 61):
        now = NOW + minute * MINUTE
        if is_due(row, tried, now):
            minutes.append(minute)
            tried = now
    assert minutes == [1, 2, 4, 8, 16, 26, 36, 46, 56]


def test_only_found_projects_that_refuse_wait() -> None:
    """A project that is listed, or answers, is asked at every pass; 50 of 500 that refuse cost the others nothing."""
    refusing = {
        "found": WatchedProject("found", "1", NOW, NOW, refused_since=NOW - timedelta(hours=1)),
        "listed": WatchedProject("listed", refused_since=NOW - timedelta(hours=1)),
    }
    tried = {"found": NOW, "listed": NOW, "well": NOW}
    assert due_projects(["found", "listed", "well", "new"], refusing, tried, NOW + MINUTE) == ["listed", "well", "new"]
    assert due_projects(["found"], refusing, tried, NOW + 10 * MINUTE) == ["found"]


def test_an_error_of_the_moment_is_no_refusal() -> None:
    """A zone is none either; a denial of the whole project is, of whatever kind."""
    for code in ("unreachable", "unavailable", "rate_limit", "credentials", "bad_answer", "unexpected"):
        assert refusal_of([Unread("project", "Later.", code)]) is None
    assert refusal_of([Unread("us-central1-a", "No.", "permission")]) is None
    for code in ("permission", "api_disabled", "vpc_service_controls", "billing", "not_found"):
        assert refusal_of([Unread("project", "No.", code)]) is not None


@given(
    st.lists(
        st.tuples(st.sampled_from(["shown", "missed", "failed"]), st.integers(0, 2), st.booleans(), st.booleans()),
        max_size=12,
    )
)
def test_no_history_lets_a_project_go_whose_vms_are_seen(steps: list[tuple[str, int, bool, bool]]) -> None:
    """A project is let go only without VMs, and after three misses, whatever searches and looks say in any order."""
    stored, misses, at, complete_at = {"lab": WatchedProject("lab", "10", NOW, NOW)}, 0, NOW, NOW
    for outcome, vms, is_read, is_denied in steps:
        at += EVERY
        complete_at = at - MINUTE if is_read else complete_at
        look = OwnLook(complete_at, vms, (DENIED,) if is_denied else ())
        search = {"shown": _shown("lab"), "missed": _shown(), "failed": PlaceSearch(ORG, unread=FAILED)}[outcome]
        misses = {"shown": 0, "missed": misses + 1, "failed": misses}[outcome]
        was_gone = stored["lab"].gone_at is not None
        stored |= {row.project: row for row in judge(SCOPE, stored, {"lab": look}, [search], at).rows}
        if stored["lab"].gone_at is not None and not was_gone:
            assert (vms, is_denied, misses >= MISSES) == (0, False, True)
