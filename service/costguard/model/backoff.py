"""Exponential backoff. Pure: jitter comes from the caller."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Backoff:
    first: timedelta
    longest: timedelta
    factor: int = 2

    def after(self, failures: int, *, jitter: float = 1.0, at_least: timedelta = timedelta()) -> timedelta:
        """The wait after this many failures in a row, `first` after one (or none).

        `jitter` is the share of it that is waited. `at_least` is what the other side asked for, as by Retry-After.
        """
        most = -(-self.longest // self.first)  # so that no power of a large number is ever computed
        times: int = self.factor ** min(max(failures - 1, 0), most.bit_length())
        return max(min(self.first * min(times, most), self.longest) * jitter, at_least)
