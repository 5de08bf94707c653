"""Faults that can be added, listed and removed while the simulation runs."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class BadFault(ValueError):
    """An invalid fault; the text says which key is wrong and what was expected."""


class _Fault(Protocol):
    id: int
    kind: str
    count: int | None


F = TypeVar("F", bound=_Fault)


class ActiveFaults(Generic[F]):
    """A fault stays until it is removed or its `count` has run out."""

    def __init__(self) -> None:
        self._active: dict[int, F] = {}
        self._last_id = 0
        self.changes = 0  # grows when a fault comes or goes

    def next_id(self) -> int:
        return self._last_id + 1

    def activate(self, fault: F) -> F:
        self._last_id = fault.id
        self._active[fault.id] = fault
        self.changes += 1
        return fault

    def listed(self) -> list[F]:
        return list(self._active.values())

    def remove(self, fault_id: int) -> bool:
        self.changes += 1
        return self._active.pop(fault_id, None) is not None

    def clear(self, kind: str | None = None) -> int:
        """Remove all faults, or all of one kind; returns how many."""
        ids = [fault.id for fault in self.listed() if kind in (None, fault.kind)]
        for fault_id in ids:
            self.remove(fault_id)
        return len(ids)

    def count_down(self, fault: F) -> None:
        if fault.count is not None:
            fault.count -= 1
            if fault.count <= 0:
                self.remove(fault.id)
