"""The options of a simulated cloud."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypedDict


class CloudOptions(TypedDict, total=False):
    """The options of Cloud that the whole world has, too."""

    projects: Iterable[str]
    begins: datetime | None
    operation_retention: timedelta
    start_stamps_apart: bool
    wait_moves_clock: bool
    base_url: str
