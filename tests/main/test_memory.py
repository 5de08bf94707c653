"""Memory goes back to the system after a crowd, where C's library is glibc."""

from __future__ import annotations

import platform
import re
import subprocess
import sys

import pytest

from costguard import memory

# Many small pieces that are freed, all but one of each hundred: the allocator keeps their pages until it is asked.
_CROWD = """
import re
from pathlib import Path
from costguard import memory
def mb():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
memory.few_arenas()
before = mb()
pieces = [bytes(2000) for _ in range(60_000)]
kept = pieces[::100]
del pieces
held = mb()
memory.give_back()
print(held - before, mb() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator has these calls")
def test_what_a_crowd_took_is_given_back() -> None:
    """120 MB in small pieces, of which one in a hundred stays: at least half of it goes back at once."""
    done = subprocess.run([sys.executable, "-c", _CROWD], capture_output=True, text=True, check=True)
    held, left = map(float, re.findall(r"[-\d.]+", done.stdout))
    assert left < max(held / 2, 10)


def test_without_glibc_nothing_happens() -> None:
    """Both say whether they did anything, and never raise."""
    assert memory.few_arenas() in (True, False)
    assert memory.give_back() in (True, False)
