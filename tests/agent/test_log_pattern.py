"""The pattern of steps: what it finds in what a command prints, and that no pattern and no line takes long."""

from __future__ import annotations

import re
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costguard_vm.agent.metric import STEP
from costguard_vm.model.log_pattern import LogPattern

DEFAULT = STEP
MOST_CALLS = 700_000  # some 50 ms


def by_python(pattern: str, text: str) -> str:
    """Finds by Python's own expressions, line by line: the group of the last match of the last line with one."""
    last = ""
    for line in re.split("[\r\n]", text):
        for match in re.finditer(pattern, line):
            last = match.group(match.re.groups and 1) or ""
    return last


@pytest.mark.parametrize(
    ("pattern", "text", "step"),
    [
        (DEFAULT, "Step: 12 loss 0.1\nstep=13\n", "13"),
        (DEFAULT, "global_step 5", ""),
        (DEFAULT, "step 5\rstep 6\rstep 7\r", "7"),
        (r"\[it (\d+)/", "[it 77/100]", "77"),
        (r"it (\d+)", "epoch 3 it 41, it 42", "42"),
        (r".*step (\d+)", "step 1 and step 20", "20"),
        (r"(?:iter|step)[ _]?(\d{1,6})\b", "iter_9 step 123456", "123456"),
        (r"^\s*(\d+)%\|", "  37%|###", "37"),
        (r"(?i)STEP\W+(\d+)$", "a step -- 8", "8"),
        (r"(\d+)", "12", "12"),
        (r"step \d+", "step 9", "step 9"),
        (r"[^0-9](\d+?)0*$", "x1200", "12"),
        (r"(?a:étape) (\d+)", "étape 4", "4"),
    ],
)
def test_what_people_write(pattern: str, text: str, step: str) -> None:
    """Progress bars, several steps in a line, other words: as Python's own expressions find it."""
    assert LogPattern(pattern).last_in(text) == step == by_python(pattern, text)


def cannot_be_empty(expression: str) -> bool:
    return re.fullmatch(expression, "") is None


atoms = st.sampled_from(["a", "b", "1", r"\d", r"\w", r"\s", ".", "[ab]", "[^a]", "(?i:B)"])
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        # How often an empty repetition is tried, and what its group then holds, is Python's own secret.
        st.tuples(inner.filter(cannot_be_empty), st.sampled_from(["?", "??", "*?", "+", "{1,2}", "*", "{2}"])).map(
            lambda one: f"(?:{one[0]}){one[1]}"
        ),
    ),
    max_leaves=6,
)
anchors = st.sampled_from(["", "", "^", r"\b", r"\B"])


@settings(max_examples=300)
@given(anchors, expressions, expressions.filter(cannot_be_empty), st.text(alphabet="ab1 -", max_size=8))
def test_it_matches_what_python_matches(anchor: str, before: str, group: str, line: str) -> None:
    """The same match, and the same of the ways to match, as Python's own expressions prefer."""
    pattern = f"{anchor}{before}({group})"
    assert LogPattern(pattern).last_in(line) == by_python(pattern, line)


@pytest.mark.parametrize(
    "pattern", ["(?:){4000000000}", "()(){4000000000}", "(?:(?:){60000}){60000}", "(?:(?:(?:(?:a{9}){9}){9}){9}){9}"]
)
def test_repetitions_of_nothing_are_refused_at_once(pattern: str) -> None:
    """They make no nodes, so that the first held a thread for an hour, by one GET of a viewer."""
    began = time.process_time()
    with pytest.raises(ValueError, match="fewer repetitions"):
        LogPattern(pattern)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("pattern", ["(", "(a", r"(a)\1", "(?=a)(b)", "(?<!a)(b)", "(" + "a" * 600 + ")", "(a{400})"])
def test_what_is_refused(pattern: str) -> None:
    """No expression, one that looks around or back, and one that is too large: each says so."""
    with pytest.raises(ValueError, match=r"\w"):
        LogPattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        DEFAULT,
        r"(a+)+$",
        r"(?:a|a)*(b)",
        r"(?:a|aa)+(b)$",
        r"(.*)(.*)(.*)(.*)(.*)x",
        r"(\d)(?:.*END)?",
        r"(?:\w+\s*)+:(\d+)",
        r"(a?){50}(a{50})b",
        r"((?:a*)*b)",
    ],
)
@pytest.mark.parametrize(
    "text",
    ["a" * 65_536, "1" * 65_536, "a1 " * 21_845, ("step " * 400 + "\n") * 30, "aaaa\n" * 13_000, "ä" * 32_768],
)
def test_no_pattern_takes_long(pattern: str, text: str) -> None:
    """Python's own would need centuries for the second of these. Calls are counted: a busy machine changes nothing."""
    wanted, calls = LogPattern(pattern), 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        wanted.last_in(text)
    finally:
        sys.setprofile(before)
    assert calls < MOST_CALLS
