"""The number of VMs that run a job's command together, or a range of it to run with what can be had."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

MOST_NODES = 64
RANGE_PATTERN = r"[0-9]{1,2}\.\.[0-9]{1,2}"
EXAMPLE = "2..8"


@dataclass(frozen=True, slots=True)
class NodeRange:
    """Bounds the number of VMs: `most` where they can be had, and never fewer than `least`, which is smaller."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"{self.least}..{self.most}"


NodeCount: TypeAlias = int | NodeRange


def node_count(given: int | str) -> NodeCount:
    """Reads `4` or `2..8`; `4..4` is 4. Raises ValueError, with what to write."""
    text = str(given).replace(" ", "")
    least, dots, most = text.partition("..")
    is_count = re.fullmatch(RANGE_PATTERN if dots else r"[0-9]{1,2}", text, re.ASCII) is not None
    if not is_count or not 1 <= int(least) <= int(most or least) <= MOST_NODES:
        raise ValueError(
            f"This is not a number of VMs: enter one from 1 to {MOST_NODES} such as 4, or a range such as {EXAMPLE} "
            "to run with what can be had."
        )
    return NodeRange(int(least), int(most)) if dots and int(least) < int(most) else int(most or least)


def parts_of(count: NodeCount) -> tuple[int, int | None]:
    """Returns the most VMs, and the least where they may be fewer."""
    return (count.most, count.least) if isinstance(count, NodeRange) else (count, None)
