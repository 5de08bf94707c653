"""The agent's phases before and after the command, and the progress of each transfer: for heartbeats."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from .transfer import TransferProgress


class Phases:
    """Safe for several threads. A transfer is named by its kind, source and target."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._phase = ""
        self._transfers: dict[tuple[str, str, str], dict[str, Any]] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        with self._lock:
            before, self._phase = self._phase, name
        try:
            yield
        finally:
            with self._lock:
                self._phase = before

    def transfer(self, kind: str, source: str, target: str) -> ReportedTransfer:
        with self._lock:
            fields = {"kind": kind, "source": source, "target": target, "state": "running"}
            self._transfers[kind, source, target] = fields
        return ReportedTransfer(self, fields)

    def fields(self) -> dict[str, Any]:
        """Returns the fields of a heartbeat or an exit; without fields that are empty."""
        with self._lock:
            transfers = [dict(one) for one in self._transfers.values()]
            phase = {"phase": self._phase} if self._phase else {}
        return {**phase, **({"transfers": transfers} if transfers else {})}

    def change(self, fields: dict[str, Any], **values: Any) -> None:
        with self._lock:
            fields.update(values)


class ReportedTransfer:
    """A transfer, from its begin to its end."""

    def __init__(self, phases: Phases, fields: dict[str, Any]) -> None:
        self._phases, self._fields, self._began = phases, fields, time.monotonic()

    def progress(self, so_far: TransferProgress) -> None:
        speed = None if so_far.bytes_per_s is None else round(so_far.bytes_per_s)
        amounts = {name: getattr(so_far, name) for name in ("bytes_done", "bytes_total", "files_done", "files_total")}
        self._phases.change(self._fields, **amounts, bytes_per_s=speed, seconds=self._seconds(), error="")

    def from_source(self, size: int) -> None:
        """Notes the bytes that come from the source of a staged input, as far as they were begun."""
        self._phases.change(self._fields, from_source=size)

    def trouble(self, error: str) -> None:
        """It is tried again."""
        self._phases.change(self._fields, error=error)

    def end(self, state: str, files: int, size: int, error: str = "", note: str = "") -> None:
        """`state` is done or skipped; what was moved is all of it, also what was there before. `note` is for people."""
        amounts = {"bytes_done": size, "bytes_total": size, "files_done": files, "files_total": files}
        seconds = self._seconds()
        speed = round(size / seconds) if state == "done" and seconds else None
        fields = {"seconds": seconds, "bytes_per_s": speed, "error": error, **({"note": note} if note else {})}
        self._phases.change(self._fields, state=state, **amounts, **fields)

    def fail(self, error: str) -> None:
        self._phases.change(self._fields, state="failed", error=error)

    def _seconds(self) -> int:
        return round(time.monotonic() - self._began)
