"""What can be made to go wrong with Slack, on demand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

MAX_SECONDS = 120.0
# What each kind does to a call; `method` and `channel` narrow every kind down.
KINDS: Mapping[str, str] = {
    "down": "the answer is 503 and nothing was done",
    "broken": "the connection breaks before anything was done",
    "timeout": "nothing was done and after `seconds` the connection breaks",
    "slow": "the call is done after `seconds`",
    "rate_limited": "429 with Retry-After `seconds`",
    "error": "`ok: false` with `code`, such as internal_error or fatal_error",
    "lost_answer": "the call is done, then the connection breaks",
    "lost_answer_error": "the call is done, then the answer is 500",
    "lost_answer_timeout": "the call is done, then after `seconds` the connection breaks",
}


class BadFault(ValueError):
    """A fault that cannot be made; the text says what was expected."""


@dataclass(slots=True)
class Fault:
    """Goes on until it is removed or `count` has run out; strikes with `chance`."""

    id: int
    kind: str
    method: str = ""  # a regular expression for the whole method name
    channel: str = ""
    count: int | None = None
    seconds: float = 30.0
    code: str = "internal_error"
    chance: float = 1.0

    def shown(self) -> dict[str, Any]:
        return asdict(self)

    def concerns(self, method: str, channel: str) -> bool:
        return (not self.method or re.fullmatch(self.method, method) is not None) and self.channel in ("", channel)


_TYPES: Mapping[str, tuple[type, ...]] = {
    "method": (str,),
    "channel": (str,),
    "count": (int,),
    "seconds": (int, float),
    "code": (str,),
    "chance": (int, float),
}


class SlackFaults:
    """Several may be active; the first that concerns a call strikes it."""

    def __init__(self, seed: int = 1) -> None:
        self._active: dict[int, Fault] = {}
        self._next = 1
        self._random = Random(f"{seed}/slack-faults")

    def add(self, kind: str, **values: Any) -> Fault:
        """Raises BadFault for an unknown kind or key, or a value of the wrong sort."""
        if kind not in KINDS:
            raise BadFault(f"unknown fault {kind!r}; expected one of {', '.join(KINDS)}")
        for key, value in values.items():
            if key not in _TYPES:
                raise BadFault(f"{key!r} means nothing to a fault; it takes {', '.join(_TYPES)}")
            if not isinstance(value, _TYPES[key]) or isinstance(value, bool):
                raise BadFault(f"{key!r} cannot be {value!r}")
        fault = Fault(self._next, kind, **values)
        if not 0 <= fault.seconds <= MAX_SECONDS:
            raise BadFault(f"'seconds' must be from 0 to {MAX_SECONDS:g}, not {fault.seconds:g}")
        if fault.count is not None and fault.count < 1:
            raise BadFault(f"'count' must be 1 or more, not {fault.count}")
        try:
            re.compile(fault.method)
        except re.error as wrong:
            raise BadFault(f"'method' {fault.method!r} is not a regular expression: {wrong}") from None
        self._next += 1
        self._active[fault.id] = fault
        return fault

    def listed(self) -> list[Fault]:
        return list(self._active.values())

    def remove(self, fault_id: int) -> bool:
        return self._active.pop(fault_id, None) is not None

    def clear(self, kind: str | None = None) -> int:
        """Clear all, or all of one kind; returns how many."""
        gone = [fault.id for fault in self._active.values() if kind in (None, fault.kind)]
        for fault_id in gone:
            self.remove(fault_id)
        return len(gone)

    def strike(self, method: str, channel: str) -> Fault | None:
        """The fault that this call meets, counted."""
        for fault in list(self._active.values()):
            if not fault.concerns(method, channel):
                continue
            if fault.chance < 1 and self._random.random() >= fault.chance:
                continue
            if fault.count is not None:
                fault.count -= 1
                if fault.count == 0:
                    self.remove(fault.id)
            return fault
        return None
