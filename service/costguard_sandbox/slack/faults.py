"""The faults of the simulated Slack."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from costguard_sandbox.faults import ActiveFaults, BadFault

MAX_SECONDS = 120.0
# What each kind does to a call.
KINDS: Mapping[str, str] = {
    "down": "the answer is 503 and nothing was done",
    "broken": "the connection breaks before anything was done",
    "timeout": "nothing was done and after `seconds` the connection breaks",
    "slow": "the call is done after `seconds`",
    "rate_limited": "429 with Retry-After `seconds`",
    "error": "`ok: false` with `code`, such as internal_error or fatal_error",
    "garbage": "nothing was done and the answer is a 200 that is none of Slack's: `what` is html, empty or cut",
    "lost_answer": "the call is done, then the connection breaks",
    "lost_answer_error": "the call is done, then the answer is 500",
    "lost_answer_timeout": "the call is done, then after `seconds` the connection breaks",
    "lost_answer_garbage": "the call is done, then the answer is a 200 that is none of Slack's, by `what`",
}
GARBAGE: Mapping[str, bytes] = {
    "html": b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Sign in to go on</body></html>",
    "empty": b"{}",
    "cut": b'{"ok": tr',
}


_TYPES: Mapping[str, tuple[type, ...]] = {
    "method": (str,),
    "channel": (str,),
    "count": (int,),
    "seconds": (int, float),
    "code": (str,),
    "what": (str,),
    "chance": (int, float),
}


@dataclass(slots=True)
class SlackFault:
    """A fault. `method`, `channel` and the probability `chance` narrow down the calls that meet it."""

    id: int
    kind: str
    method: str = ""  # a regular expression for the whole method name
    channel: str = ""
    count: int | None = None
    seconds: float = 30.0
    code: str = "internal_error"
    what: str = "html"
    chance: float = 1.0

    def shown(self) -> dict[str, Any]:
        return asdict(self)

    def applies_to(self, method: str, channel: str) -> bool:
        return (not self.method or re.fullmatch(self.method, method) is not None) and self.channel in ("", channel)


class SlackFaults(ActiveFaults[SlackFault]):
    """Several may be active; a call meets the first that applies to it."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__()
        self._random = Random(f"{seed}/slack-faults")

    def add(self, kind: str, **values: Any) -> SlackFault:
        """Raises BadFault for an unknown kind or key, or an invalid value."""
        if kind not in KINDS:
            raise BadFault(f"unknown fault {kind!r}; expected one of {', '.join(KINDS)}")
        for key, value in values.items():
            if key not in _TYPES:
                raise BadFault(f"{key!r} is unknown to a fault; it takes {', '.join(_TYPES)}")
            if not isinstance(value, _TYPES[key]) or isinstance(value, bool):
                raise BadFault(f"{key!r} cannot be {value!r}")
        fault = SlackFault(self.next_id(), kind, **values)
        if not 0 <= fault.seconds <= MAX_SECONDS:
            raise BadFault(f"'seconds' must be from 0 to {MAX_SECONDS:g}, not {fault.seconds:g}")
        if fault.count is not None and fault.count < 1:
            raise BadFault(f"'count' must be 1 or more, not {fault.count}")
        if fault.what not in GARBAGE:
            raise BadFault(f"'what' must be one of {', '.join(GARBAGE)}, not {fault.what!r}")
        try:
            re.compile(fault.method)
        except re.error as wrong:
            raise BadFault(f"'method' {fault.method!r} is not a regular expression: {wrong}") from None
        return self.activate(fault)

    def met_by(self, method: str, channel: str) -> SlackFault | None:
        """The fault that this call meets, counted."""
        for fault in self.listed():
            if fault.applies_to(method, channel) and (fault.chance >= 1 or self._random.random() < fault.chance):
                self.count_down(fault)
                return fault
        return None
