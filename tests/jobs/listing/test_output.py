"""The whole output of an attempt, read from its stored pieces: bounded, in order, and as a terminal shows it."""

from __future__ import annotations

import gzip
import time
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costguard.checkpoints.archives import StoredArchives
from costguard.checkpoints.buckets import StoreAccess
from costguard.checkpoints.client import StoredCheckpoints
from costguard.jobs.listing.output import LONGEST_LINE, MOST_READ, MOST_TEXT, page, whole_text
from costguard.model.job import CheckpointPlan, JobKind, JobSpec
from costguard.model.reported.output import OutputPlace, output_folder
from costguard_vm.model.log_pattern import LogPattern

START = OutputPlace(1, 0)


class StoredRun:
    """The folder of an attempt, as the agent leaves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = StoredArchives(f"file://{folder}", StoreAccess())

    def add(self, content: bytes, start: int, run: int = 1) -> None:
        path = self.folder / str(run) / f"{start:015d}.log.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content))

    def text(self) -> str:
        return "".join(whole_text(self.store))


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    return StoredRun(tmp_path / "logs")


def test_pieces_are_put_together(stored: StoredRun) -> None:
    """Lines go on from one piece to the next, and a later run follows."""
    stored.add(b"one\ntw", 0)
    stored.add(b"o\nthree\n", 6)
    stored.add(b"again", 0, run=2)
    assert stored.text() == "one\ntwo\nthree\nagain\n"


def test_reading_goes_on_where_it_stopped(stored: StoredRun) -> None:
    """A line without its end waits until it has one, also for a reader who follows."""
    stored.add(b"one\ntwo\nthr", 0)
    first = page(stored.store, START, 1)
    assert (first.lines, first.is_end) == (("one",), False)
    second = page(stored.store, first.next, 10)
    assert (second.lines, second.is_end) == (("two",), True)
    assert page(stored.store, second.next, 10).lines == ()
    stored.add(b"one\ntwo\nthree\n", 0)
    assert page(stored.store, second.next, 10).lines == ("three",)


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b" 10%|#\r 50%|###\r100%|######\n", "100%|######"),
        (b"\x1b[32mepoch\x1b[0m 3\n", "epoch 3"),
        (b"windows\r\n", "windows"),
        (b"caf\xc3\xa9 \xff\xfe\n", "café \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
        (b"bell\x07 nul\x00\n", "bell nul"),
        (b"\x1b]0;title\x07text\n", "text"),
    ],
)
def test_lines_are_shown_as_a_terminal_shows_them(stored: StoredRun, printed: bytes, shown: str) -> None:
    """Progress bars, colours, bytes that are no UTF-8, control characters: wherever pieces divide them."""
    for cut in range(1, len(printed)):
        stored.add(printed[:cut], 0)
        stored.add(printed[cut:], cut)
        assert stored.text() == f"{shown}\n"
        (stored.folder / "1" / f"{cut:015d}.log.gz").unlink()


def test_what_is_missing_is_said(stored: StoredRun) -> None:
    """A piece that is gone, and one that is damaged, leave a line; what follows is read."""
    stored.add(b"one\n", 0)
    stored.add(b"three\n", 100)
    assert stored.text() == "one\n[costguard: 96 bytes of the output are missing here]\nthree\n"
    damaged = stored.folder / "1" / f"{0:015d}.log.gz"
    damaged.write_bytes(b"no gzip at all")
    assert stored.text() == "[costguard: 100 bytes of the output are missing here]\nthree\n"


def test_what_was_written_twice_is_read_once(stored: StoredRun) -> None:
    """A piece written twice comes from an agent that was killed before it had noted how far it was."""
    stored.add(b"one\ntwo\n", 0)
    stored.add(b"two\nthree\n", 4)
    assert stored.text() == "one\ntwo\nthree\n"


def test_other_files_are_no_pieces(stored: StoredRun) -> None:
    """Such as what another tool left there."""
    stored.add(b"one\n", 0)
    (stored.folder / "1" / "notes.txt").write_text("other\n")
    (stored.folder / "1" / "000000000000004.log.gz.partial").write_text("torn")
    assert stored.text() == "one\n"


def test_a_search_returns_matching_lines_a_part_at_a_time(stored: StoredRun) -> None:
    """Together they are all that match, although one answer looks through a bounded part."""
    lines = [f"step {number} {'error' if number % 1000 == 7 else 'fine'}" for number in range(5_000)]
    text = "".join(f"{line}\n" for line in lines).encode()
    for start in range(0, len(text), 10_000):
        stored.add(text[start : start + 10_000], start)
    matching: list[str] = []
    place, answers = START, 0
    while True:
        part = page(stored.store, place, 1000, LogPattern("error"), 20_000)
        matching += part.lines
        place, answers = part.next, answers + 1
        if part.is_end:
            break
    assert matching == [line for line in lines if "error" in line]
    assert answers == len(text) // 20_000 + 1


def test_an_answer_is_bounded_whatever_was_printed(stored: StoredRun) -> None:
    """A line of 10 MB is cut, with its size; memory stays small."""
    stored.add(b"a" * 10_000_000 + b"\n" + b"b\n" * 3_000_000, 0)
    tracemalloc.start()
    first = page(stored.store, START, 10_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert first.lines[0] == "a" * LONGEST_LINE + " [of 10,000,001 bytes]"
    assert len(first.lines) <= 10_000
    assert sum(map(len, first.lines)) <= MOST_TEXT + LONGEST_LINE
    assert peak < 16 << 20
    assert page(stored.store, first.next, 2).lines == ("b", "b")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200).map(lambda data: data.replace(b"\r", b"\n")), st.lists(st.integers(1, 200), max_size=5))
def test_any_cut_and_any_pages_give_the_same(
    tmp_path_factory: pytest.TempPathFactory, printed: bytes, cuts: list[int]
) -> None:
    """The output is the same however the agent cut it, and however many lines are requested at a time."""
    printed += b"\n"
    one, many = (StoredRun(tmp_path_factory.mktemp("run")) for _ in range(2))
    one.add(printed, 0)
    places = [0, *sorted({cut for cut in cuts if cut < len(printed)}), len(printed)]
    for begin, end in pairwise(places):
        many.add(printed[begin:end], begin)
    assert many.text() == one.text()
    lines: list[str] = []
    place = START
    while True:
        part = page(many.store, place, 2)
        lines += part.lines
        place = part.next
        if part.is_end:
            break
    assert "".join(f"{line}\n" for line in lines) == one.text()


def spec(location: str = "", kind: JobKind = JobKind.TRAINING) -> JobSpec:
    return JobSpec(kind, "t4", "lab", "ada@lab.example", checkpoint=CheckpointPlan(location) if location else None)


@pytest.mark.parametrize(
    ("location", "elsewhere", "folder"),
    [
        ("s3://b/run/", "", "s3://b/run/.costguard/logs/j1-1"),
        ("gs://b/run/last.ckpt", "gs://b/logs", "gs://b/run/.costguard/logs/j1-1"),
        ("file:///shared/run", "", "file:///shared/run/.costguard/logs/j1-1"),
        ("/data/out", "gs://b/logs/", "gs://b/logs/j1-1"),
        ("/data/out", "", ""),
        ("", "gs://b/logs", "gs://b/logs/j1-1"),
        ("", "", ""),
    ],
)
def test_output_is_stored_next_to_the_checkpoints(location: str, elsewhere: str, folder: str) -> None:
    """The output may also go where [jobs] logs says; no place is the empty text."""
    assert output_folder(spec(location), "j1-1", elsewhere) == folder
    assert output_folder(spec("", JobKind.DEV), "j1-1", "gs://b/logs") == ""


def test_stored_output_is_no_checkpoint(tmp_path: Path) -> None:
    """It lies at the location, and no layout sees it there."""
    StoredRun(tmp_path / ".costguard" / "logs" / "j1-1").add(b"one\n", 0)
    (tmp_path / "checkpoint-1").mkdir()
    (tmp_path / "checkpoint-1" / "trainer_state.json").write_text("{}")
    listing = StoredCheckpoints(StoreAccess()).listing(f"file://{tmp_path}")
    assert list(listing.files) == ["checkpoint-1/trainer_state.json"]


HOSTILE = (
    "((a*)*)*((a*)*)*((a*)*)*(b)",
    "(a|a|a|a|a|a|a|a)*(a|a|a|a)*b",
    "(a?){40}(a*){20}b",
    "(?:(?:a{0,9}){0,9})*b",
)


@pytest.mark.parametrize("pattern", HOSTILE)
def test_one_budget_holds_for_a_whole_answer(stored: StoredRun, pattern: str) -> None:
    """A budget for each line came to 66 to 78 s of a core for one answer over 2 MiB of lines."""
    stored.add((b"a" * 39 + b"\n") * (MOST_READ // 40), 0)
    began = time.process_time()
    first = page(stored.store, START, 1_000, LogPattern(pattern))
    assert time.process_time() - began < 10
    assert (first.lines, first.is_end) == ((), False)
    second = page(stored.store, first.next, 1_000, LogPattern(pattern))
    assert START < first.next < second.next


def test_search_that_ran_out_of_its_budget_goes_on_and_finds_all(stored: StoredRun) -> None:
    """Answer by answer, each line once."""
    lines = [f"{'a' * 30}{number}" + ("b" if number % 100 == 7 else "") for number in range(2_000)]
    stored.add("".join(f"{line}\n" for line in lines).encode(), 0)
    matches: list[str] = []
    answers, place, is_end = 0, START, False
    while not is_end:
        part = page(stored.store, place, 1_000, LogPattern("((a*)*)*[0-9]+b"))
        matches += part.lines
        answers, place, is_end = answers + 1, part.next, part.is_end
    assert matches == [line for line in lines if line.endswith("b")]
    assert answers > 1
