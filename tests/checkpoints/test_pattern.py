"""Patterns of checkpoints: which names they fit, and that no name and no pattern of a user's takes long."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costguard.access.rules import Protection
from costguard.reminders.enforcement import protected_because
from costguard_vm.checkpoints.judge import notes_on
from costguard_vm.checkpoints.layouts import LAYOUTS
from costguard_vm.checkpoints.layouts.base import Tree
from costguard_vm.checkpoints.layouts.plain import STEP, StepPattern
from costguard_vm.model.checkpoint import Framework, Listing, LookFor, StoredFile

LONGEST_S = 0.05
# Object names have at most 1,024 bytes of UTF-8. Sources: "Object naming guidelines" of Cloud Storage (1-1024 bytes),
# "Naming Amazon S3 objects" (a key is at most 1,024 bytes long).
LONGEST_NAME = 1024


def steps_by_definition(pattern: str, path: str) -> set[int]:
    """All steps with which the path is of the pattern: the whole numbers in it, tried one by one."""
    first, rest = pattern.split(STEP, 1)
    steps = set()
    for digits in re.finditer("[0-9]+", path):
        step = digits.group()
        fits = is_of(first, path[: digits.start()]) and is_of(rest.replace(STEP, step), path[digits.end() :])
        if fits and len(step) <= 18:
            steps.add((digits.start(), int(step)))
    return {max(steps)[1]} if steps else set()


def is_of(pattern: str, text: str) -> bool:
    """Defines a star: nothing, or one character that is no slash and then the same again."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return is_of(pattern[1:], text) or (bool(text) and text[0] != "/" and is_of(pattern, text[1:]))
    return bool(text) and text[0] == pattern[0] and is_of(pattern[1:], text[1:])


pieces = st.lists(st.sampled_from(["a", "b", "1", "-", "/", "*", "*", STEP]), max_size=3).map("".join)
patterns = st.tuples(pieces, pieces).map(STEP.join)
names = st.text(alphabet="ab12-/\n", max_size=9)


@settings(max_examples=500)
@given(patterns, names)
def test_a_pattern_fits_what_its_definition_says(pattern: str, name: str) -> None:
    """Stars stand within one name; the step is the same wherever it stands, and the last number where several fit.

    A regular expression of greedy stars, and a step that is a whole number, fits the same.
    """
    step = StepPattern(pattern).step_of(name)
    assert ({step} - {None}) == steps_by_definition(pattern, name)
    first, *rest = ["[^/]*".join(map(re.escape, part.split("*"))) for part in pattern.split(STEP)]
    whole = "(?<![0-9])(?P<step>[0-9]{1,18})(?![0-9])"
    same = re.fullmatch(first + "".join(f"{'(?P=step)' if at else whole}{part}" for at, part in enumerate(rest)), name)
    assert step == (int(same["step"]) if same else None)


@pytest.mark.parametrize(
    ("pattern", "name", "step"),
    [
        ("ckpt_{step}.pt", "ckpt_000100.pt", 100),
        ("run-*/model-{step}.bin", "run-a/model-7.bin", 7),
        ("run-*/model-{step}.bin", "run-a/b/model-7.bin", None),
        ("{step}/model-{step}.bin", "5/model-5.bin", 5),
        ("{step}/model-{step}.bin", "5/model-6.bin", None),
        ("ckpt{step}", "ckpt" + "9" * 18, 10**18 - 1),
        ("ckpt{step}", "ckpt" + "9" * 19, None),
        ("*{step}", "epoch3-step40", 40),
        ("*{step}*", "epoch3-step40.pt", 40),
        ("*{step}", "ckpt" + "9" * 19, None),
        ("Größe-{step}", "Größe-12", 12),
        ("{step}", "١٢", None),
    ],
)
def test_what_people_write(pattern: str, name: str, step: int | None) -> None:
    """Steps with zeros before them, in folders, twice, too long for a number, in other scripts."""
    assert StepPattern(pattern).step_of(name) == step


HOSTILE_PATTERNS = [
    "*a*a*a*a{step}",
    "*a" * 16 + "{step}",
    "{step}" + "*a" * 16,
    "*" * 16 + "{step}",
    "*{step}*" + "{step}" * 60,
    "*{step}" * 16,
    "*1*{step}*1*{step}*1",
    "a*/" * 16 + "{step}",
    "*ä*ä*ä*ä{step}",
    "*" + "a" * 480 + "{step}",
]
HOSTILE_NAMES = [
    "a" * LONGEST_NAME,
    "a" * (LONGEST_NAME - 1) + "1",
    "1" * LONGEST_NAME,
    "1a" * (LONGEST_NAME // 2),
    "1-" * (LONGEST_NAME // 2),
    "a/" * (LONGEST_NAME // 2),
    "ä" * (LONGEST_NAME // 2),
    "a" * 500 + "/" + "1a" * 260,
    "{step}" * (LONGEST_NAME // 6),
    "mp_rank_" * 127,
    "checkpoint-" + "1." * 500,
    "rng_state_1.pth" * 60,
]


def seconds(work: Callable[[], object]) -> float:
    """Measures this thread's time on a processor, without the collection of other tests' garbage."""
    gc.disable()
    try:
        begun = time.thread_time()
        work()
        return time.thread_time() - begun
    finally:
        gc.enable()


@pytest.mark.parametrize("pattern", HOSTILE_PATTERNS)
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_no_pattern_takes_long_over_a_name(pattern: str, name: str) -> None:
    """The time is under 50 ms, making the pattern included: `*a*a*a*a{step}` took 20 s over a thousand letters."""
    assert seconds(lambda: StepPattern(pattern).step_of(name)) < LONGEST_S


def listing_of(*paths: str) -> Listing:
    files = {path: StoredFile(path, 10, "t", datetime(2026, 11, 2, tzinfo=UTC)) for path in paths}
    return Listing("gs://bucket/run", files)


class NoReader:
    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        return b"\x00" * length

    def each(self, work: Callable[[StoredFile], object], items: list[StoredFile]) -> list[object]:
        return [work(item) for item in items]


@pytest.mark.parametrize("framework", Framework)
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_no_layout_takes_long_over_a_name(framework: Framework, name: str) -> None:
    """Each framework's own names too, as a file, as a folder and below one, and the hint of what a name may mean."""
    look_for = LookFor(framework, "*a*a*a*a{step}", "*1*1*{step}")
    listing = listing_of(name, f"{name}/a", f"checkpoint-1/{name}", f"iter_0000001/{name}", f"tag/{name}")

    def looked() -> None:
        list(LAYOUTS[framework](Tree(listing, look_for, NoReader())))  # type: ignore[arg-type]
        notes_on(listing, (), None, NoReader())  # type: ignore[arg-type]

    assert seconds(looked) < LONGEST_S


@pytest.mark.parametrize(
    ("framework", "names"),
    [
        (Framework.HUGGING_FACE, [f"checkpoint-1/rng_state_{rank}.pth" for rank in range(999_600, 1_000_000)]),
        (Framework.DEEPSPEED, [f"tag/{rank:03}_mp_rank_999999_model_states.pt" for rank in range(100)]),
        (
            Framework.DEEPSPEED,
            [f"tag/{rank}zero_pp_rank_999999_mp_rank_00_optim_states.pt" for rank in range(100)],
        ),
        (Framework.MEGATRON, [f"iter_0000001/mp_rank_{rank}/model.pt" for rank in range(999_900, 1_000_000)]),
    ],
)
def test_a_rank_that_a_name_claims_takes_no_long_count(framework: Framework, names: list[str]) -> None:
    """A name may say rank 999,999: the ranks that lack before it are not counted one by one for each file."""
    paths = [*names, "checkpoint-1/trainer_state.json"]
    tree = Tree(listing_of(*paths), LookFor(framework), NoReader())  # type: ignore[arg-type]
    assert seconds(lambda: [candidate.missing for candidate in LAYOUTS[framework](tree)]) < LONGEST_S


@pytest.mark.parametrize("pattern", ["*a" * 8, "*a*a*a*a*a*a*a?", "a*" * 8 + "b", "*[!b]" * 8 + "c", "?" * 128])
def test_no_protected_name_takes_long(pattern: str) -> None:
    """`protection.names` are shell patterns, matched with every VM in every pass."""
    protection = Protection(names=(pattern,))
    for name in ("a" * 63, "ab" * 31, "a" * LONGEST_NAME):
        assert seconds(partial(protected_because, name, "p", {}, protection)) < LONGEST_S
        assert bool(protected_because(name, "p", {}, protection)) == fnmatchcase(name, pattern)
