"""Flame graphs: widths, what they are compared with, and the part that they are enlarged to."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pages import profile_story

from costguard.jobs.decide.profile.flame import draw, hottest
from costguard_vm.profile.frames import Frame, Stack
from costguard_vm.profile.window import StackGroup, group_of

_FRAMES = [Frame(f"f{number}", "a.py", number, is_own=True) for number in range(4)]
_COUNTS = st.dictionaries(
    st.lists(st.sampled_from(_FRAMES), min_size=1, max_size=6).map(tuple), st.integers(5, 40), min_size=1, max_size=8
)


@given(_COUNTS)
def test_a_function_is_as_wide_as_its_share_and_within_its_caller(counts: dict[Stack, int]) -> None:
    """It holds for any stacks."""
    nodes = draw(group_of(counts, {})).nodes
    looks = sum(counts.values())

    assert sum(node.share for node in nodes if node.depth == 0) == pytest.approx(1)
    for place, node in enumerate(nodes):
        assert node.total == pytest.approx(node.share)
        assert round(node.share * looks) >= 5
        above = [one for one in nodes[:place] if one.depth == node.depth - 1]
        assert not node.depth or any(
            one.left - 1e-9 <= node.left and node.left + node.share <= one.left + one.share + 1e-9 for one in above
        )


@given(_COUNTS)
def test_neighbours_do_not_overlap(counts: dict[Stack, int]) -> None:
    """It holds for any stacks."""
    nodes = draw(group_of(counts, {})).nodes
    for depth in {node.depth for node in nodes}:
        row = sorted((node for node in nodes if node.depth == depth), key=lambda node: node.left)
        for first, second in pairwise(row):
            assert first.left + first.share <= second.left + 1e-9


@given(_COUNTS, _COUNTS)
def test_changes_of_the_outermost_functions_add_up_to_nothing(now: dict[Stack, int], then: dict[Stack, int]) -> None:
    """Each profile is a whole, so what one function gains others lose; those that are gone are not drawn."""
    both = dict.fromkeys(then, 1) | {stack: count + 5 for stack, count in now.items()}

    nodes = draw(group_of(both, {}), group_of(then, {})).nodes

    drawn = [node.change for node in nodes if node.depth == 0 and node.change is not None]
    missing = 1 - sum(node.total for node in nodes if node.depth == 0)
    assert sum(drawn) == pytest.approx(0, abs=missing + 0.15)


def test_a_part_is_enlarged_by_an_address_that_stays_as_the_profile_grows() -> None:
    """A link that someone shared shows the same function a day later."""
    workers = profile_story.slow().workers
    whole = draw(workers)
    iloc = next(node for node in whole.nodes if node.frame.file == "pandas/core/indexing.py")

    more = StackGroup(workers.looks + 9, 9, workers.stacks)
    part = draw(more, None, iloc.address)

    assert part.root is not None
    assert part.root.frame == iloc.frame
    assert [node.frame.function for node in part.path] == [
        "_worker_loop",
        "_MapDatasetFetcher.fetch",
        "Rows.__getitem__",
        "_LocationIndexer.__getitem__",
    ]
    assert part.nodes[0].share == 1
    assert part.nodes[0].total == pytest.approx(300 / 409)


def test_an_unknown_address_shows_the_whole() -> None:
    """It may be of a function that is gone."""
    workers = profile_story.slow().workers

    assert draw(workers, None, "nothing") == draw(workers)


def test_a_moved_line_is_the_same_function() -> None:
    """Two versions of a script have other lines."""
    before: dict[Stack, int] = {(_FRAMES[0],): 5, (_FRAMES[1],): 5}
    moved: dict[Stack, int] = {(_FRAMES[0]._replace(line=99),): 5, (_FRAMES[1],): 5}

    assert [node.change for node in draw(group_of(moved, {}), group_of(before, {})).nodes] == [0, 0]


def test_a_function_that_calls_itself_counts_once() -> None:
    """A total would be above the whole otherwise."""
    stack = (_FRAMES[0], _FRAMES[1], _FRAMES[0])

    (first, second) = hottest(group_of({stack: 4}, {}), 2)

    assert (first.frame, first.own, first.total) == (_FRAMES[0], 1, 1)
    assert (second.frame, second.own, second.total) == (_FRAMES[1], 0, 1)


def test_the_earlier_share_of_a_new_function_is_zero() -> None:
    """It is known, and not unknown."""
    (one,) = hottest(group_of({(_FRAMES[0],): 4}, {}), 5, group_of({(_FRAMES[1],): 3}, {}))

    assert one.before == 0
