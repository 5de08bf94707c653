"""When a VM's disk counts as nearly full, and as full."""

from __future__ import annotations

import pytest
from tests.builders import at
from tests.jobs.jobbed import agent, attempt, decided, exited, only, view

from costguard.jobs.decide.actions import EndAttempt
from costguard.jobs.decide.checkpoints.disk import DiskState, disk_of
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.words import size_text

GIB = 1 << 30


@pytest.mark.parametrize(
    ("free", "total", "state", "text"),
    [
        (0, 100 * GIB, DiskState.FULL, "disk full: 0 bytes left on /"),
        (4096, 100 * GIB, DiskState.FULL, "disk full: 4.0 KiB left on /"),
        (0, None, DiskState.FULL, "disk full: 0 bytes left on /"),
        (10 * GIB - 1, 100 * GIB, DiskState.LOW, "disk nearly full: 10.0 GiB of 100.0 GiB left on /"),
        (10 * GIB, 100 * GIB, DiskState.OK, ""),
        (20 * GIB - 1, 4000 * GIB, DiskState.LOW, "disk nearly full: 20.0 GiB of 3.9 TiB left on /"),
        (20 * GIB, 4000 * GIB, DiskState.OK, ""),
        (5 * GIB, None, DiskState.OK, ""),
    ],
)
def test_a_tenth_or_twenty_gibibytes_is_low_and_less_than_one_mebibyte_is_full(
    free: int, total: int | None, state: DiskState, text: str
) -> None:
    """A small disk is judged by a share, a large one by an amount; without a size no share is given."""
    result = disk_of({"disk_free_bytes": free, "disk_total_bytes": total, "disk_mount": "/"})
    assert result is not None
    assert (result.state, result.text) == (state, text)


@pytest.mark.parametrize("free", [None, "much", True, -1])
def test_a_disk_that_nobody_measured_is_unknown(free: object) -> None:
    """Neither full nor fine."""
    assert disk_of({"disk_free_bytes": free}) is None
    assert disk_of({}) is None


@pytest.mark.parametrize(("count", "text"), [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1536, "1.5 KiB")])
def test_sizes_in_words(count: int, text: str) -> None:
    """Sizes are in powers of 1024, as disks are sold at Google."""
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("free", "mount", "words"),
    [
        (0, "/", "the command failed with code 1; disk full: 0 bytes left on /"),
        (0, "", "the command failed with code 1; disk full: 0 bytes left on /"),
        (50 * GIB, "/", "the command failed with code 1"),
        (None, "", "the command failed with code 1"),
    ],
)
def test_a_command_that_filled_its_disk_says_so_in_its_reason(free: int | None, mount: str, words: str) -> None:
    """The reason names the full disk, so that its owner need not guess why a write failed."""
    end = exited(1, moment=at("11:59"), disk_free=free, disk_mount=mount)
    result = only(decided(view(attempt(AttemptState.RUNNING, agent=agent(exit=end)))))
    assert isinstance(result, EndAttempt)
    assert (result.outcome, result.reason) == (Outcome.CRASHED, words)
