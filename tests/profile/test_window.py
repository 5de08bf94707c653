"""Windows of profiles: adding up, bounds, and the document that an agent sends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard_vm.profile.frames import Frame, Stack
from costguard_vm.profile.window import (
    MOST_BYTES,
    StackGroup,
    StackProfile,
    as_bounded_json,
    as_json,
    group_of,
    merged,
    read_profile,
)

_FRAMES = [Frame(f"f{number}", f"file{number % 3}.py", number, is_own=number % 2 == 0) for number in range(6)]
_STACKS = st.lists(st.sampled_from(_FRAMES), min_size=1, max_size=5).map(tuple)
_COUNTS = st.dictionaries(_STACKS, st.integers(1, 50), max_size=12)


def _profile(counts: dict[Stack, int], running: dict[Stack, int] | None = None) -> StackProfile:
    return StackProfile(10.0, 0.2, group_of(counts, running or {}))


@given(_COUNTS, _COUNTS)
def test_a_document_reads_back_as_it_was(main: dict[Stack, int], workers: dict[Stack, int]) -> None:
    """The guard reads what an agent sent."""
    profile = StackProfile(10.0, 0.25, group_of(main, main), group_of(workers, {}))

    assert read_profile(json.loads(json.dumps(as_json(profile)))) == profile


@given(_COUNTS, _COUNTS, st.integers(1, 4))
def test_no_look_is_lost_or_made_up_by_adding(one: dict[Stack, int], two: dict[Stack, int], most: int) -> None:
    """Looks at rare stacks are counted with the others."""
    total = merged(_profile(one), _profile(two), most).main

    assert total.looks == sum(one.values()) + sum(two.values())
    assert total.other + sum(count for count, _ in total.stacks.values()) == total.looks
    assert len(total.stacks) <= most


@given(_COUNTS, _COUNTS)
def test_adding_does_not_depend_on_the_order(one: dict[Stack, int], two: dict[Stack, int]) -> None:
    """Windows may come late."""
    assert merged(_profile(one), _profile(two), 99).main == merged(_profile(two), _profile(one), 99).main


def test_a_stack_never_ran_more_often_than_it_was_seen() -> None:
    """The two records of a window are of different looks."""
    stack = (_FRAMES[0],)

    assert group_of({stack: 3}, {stack: 5}).stacks[stack] == (3, 3)


def test_a_window_is_bounded_in_bytes() -> None:
    """The rarest stacks go first, and are counted."""
    counts = {
        tuple(Frame(f"function_{number}_{depth}" * 4, "a" * 100, depth, is_own=True) for depth in range(60)): 1
        for number in range(400)
    }

    document = as_bounded_json(_profile(counts))

    assert len(json.dumps(document)) <= MOST_BYTES
    assert document["main"]["looks"] == 400
    read = read_profile(document)
    assert read is not None
    assert read.main.other == 400 - len(read.main.stacks)


@pytest.mark.parametrize(
    "document",
    [
        {"main": {"looks": 5, "stacks": [[[9], 5, 0]]}, "frames": []},
        {"main": {"looks": -1, "stacks": [[[0], 5, 0]]}, "frames": [["f", "a", 1, 1]]},
        {"main": {"looks": 3, "stacks": [[[0], 5, 0]]}, "frames": [["f", "a", 1, 1]]},
        {"main": {"looks": 3, "stacks": [[[0] * 500, 1, 0], [[True], 1, 0], "x", [[0]]]}, "frames": [["f", "a", 1, 1]]},
        {"main": [], "workers": "x", "frames": {"a": 1}, "seconds": "1", "error": 7},
        {"main": {"looks": 2, "stacks": [[[0], 2, 0]]}, "frames": [[1, 2, 3, 4]]},
    ],
    ids=["no frame", "negative", "more than looks", "too deep", "wrong kinds", "frame of numbers"],
)
def test_what_no_agent_sends_is_left_out(document: dict[str, Any]) -> None:
    """The looks stay, as of unknown stacks."""
    profile = read_profile(document)

    assert profile is not None
    assert profile.main.stacks == {}
    assert profile.main.other == profile.main.looks


def test_no_document_is_no_profile() -> None:
    """A text is none."""
    assert read_profile("stacks") is None


def test_an_error_goes_once_stacks_have_come() -> None:
    """A later failure takes no stacks away."""
    refused = StackProfile(error="py-spy may not attach")

    assert merged(StackProfile(), refused, 9).error == "py-spy may not attach"
    assert merged(refused, _profile({(_FRAMES[0],): 1}), 9).error == ""
    assert merged(_profile({(_FRAMES[0],): 1}), refused, 9).main == StackGroup(1, 0, {(_FRAMES[0],): (1, 0)})
