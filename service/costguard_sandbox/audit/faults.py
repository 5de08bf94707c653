"""Faults of entries on their way from the log to the subscription."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from costguard_sandbox.faults import ActiveFaults, BadFault

# The key that each kind needs.
_KINDS: Mapping[str, str] = {
    "drop": "share",
    "double": "share",
    "torn": "share",
    "foreign": "share",
    "disorder": "seconds",
    "delay": "seconds",
}
_PARTS = ("", "first", "last", "bulk", "system", "refused")  # "bulk": of a VM that a bulk insert made


@dataclass(slots=True)
class AuditFault:
    """A fault of the entries' way; `part` limits it to entries of one kind, "" means all.

    `drop`: this share never arrives. `double`: it arrives twice. `torn`: half of its bytes arrive. `foreign`: an entry
    of another service comes with it. `disorder`: it is late by up to so many seconds, each by another time. `delay`: it
    is late by so many.
    """

    id: int
    kind: str
    share: float = 1.0
    seconds: float = 0.0
    part: str = ""
    count: int | None = None

    def shown(self) -> dict[str, Any]:
        keys = ("id", "kind", _KINDS[self.kind], *(("part",) if self.part else ()))
        values = asdict(self)
        return {key: values[key] for key in keys}


class AuditFaults(ActiveFaults[AuditFault]):
    def add(self, kind: str, **values: Any) -> AuditFault:
        """Raises BadFault for an unknown kind or key, a missing key or an invalid value."""
        if kind not in _KINDS:
            raise BadFault(f"unknown fault {kind!r}; expected one of {', '.join(_KINDS)}")
        needed = _KINDS[kind]
        if needed not in values:
            raise BadFault(f"a fault of kind {kind!r} needs {needed!r}")
        if unknown := sorted(values.keys() - {needed, "part"}):
            raise BadFault(f"{unknown[0]!r} is unknown to {kind!r}; it takes {needed} and part")
        given, most = values[needed], 1.0 if needed == "share" else 7 * 86_400.0
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= most:
            raise BadFault(f"{needed!r} must be a number from 0 to {most:g}, not {given!r}")
        if values.get("part", "") not in _PARTS:
            raise BadFault(f"'part' must be one of {', '.join(_PARTS[1:])}, not {values['part']!r}")
        return self.activate(AuditFault(self.next_id(), kind, **values))

    def met(self, kind: str, part: str, draw: Random) -> bool:
        """Draws for every fault of the kind, so that one more changes the fate of no other entry."""
        drawn = [draw.random() < fault.share for fault in self._of(kind, part)]
        return any(drawn)

    def late_s(self, part: str, draw: Random) -> float:
        delays = sum(fault.seconds for fault in self._of("delay", part))
        return delays + sum(draw.uniform(0, fault.seconds) for fault in self._of("disorder", part))

    def _of(self, kind: str, part: str) -> Iterator[AuditFault]:
        return (fault for fault in self.listed() if fault.kind == kind and fault.part in ("", part))
