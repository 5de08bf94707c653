"""Events that the guard has not accepted yet."""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from .files import make_folder, names, read, remove, say, utc, write

MOST_BYTES = 512 << 10  # in one request


class Spool:
    """Events on disk until the guard has accepted them, in order. On a full disk they wait in memory instead."""

    def __init__(self, folder: str, most: int) -> None:
        make_folder(folder)
        self._folder, self._most = folder, most
        self._lock = threading.Lock()
        self._waiting: OrderedDict[int, tuple[str, bytes | None]] = OrderedDict()
        for name in [name for name in names(folder) if name.endswith(".json")]:
            self._waiting[int(name.split("-")[0])] = (name, None)
        accepted = int(read(os.path.join(folder, "accepted")) or 0)
        self._last = max([accepted, *self._waiting])

    def add(self, kind: str, event: Mapping[str, Any]) -> None:
        with self._lock:
            self._last += 1
            content = json.dumps({"seq": self._last, "kind": kind, "at": utc(), **event}).encode()
            name = f"{self._last:012d}-{kind}.json"
            try:
                write(os.path.join(self._folder, name), content)
                self._waiting[self._last] = (name, None)
            except OSError as error:
                say(f"an event waits in memory: {error}")
                self._waiting[self._last] = (name, content)
            beats = [seq for seq, (name, _) in self._waiting.items() if "-heartbeat" in name]
            if len(self._waiting) > self._most and beats:
                self._forget(beats[0])

    def batch(self, most: int) -> list[dict[str, Any]]:
        """The oldest events, few enough for one request. What cannot be read from the disk any more is passed over."""
        events: list[dict[str, Any]] = []
        size = 0
        with self._lock:
            for seq, (name, content) in list(self._waiting.items()):
                text = content.decode() if content else read(os.path.join(self._folder, name))
                size += len(text)
                if len(events) == most or (events and size > MOST_BYTES):
                    break
                try:
                    events.append(json.loads(text))
                except ValueError:
                    self._forget(seq)
        return events

    def accept(self, through: int) -> bool:
        """Whether that took anything away. The number is on disk before its events go, so that none is used twice."""
        with self._lock:
            gone = [seq for seq in self._waiting if seq <= through]
            self._last = max(self._last, through)
            if gone:
                try:
                    write(os.path.join(self._folder, "accepted"), str(through).encode())
                except OSError as error:
                    say(f"cannot write down what was accepted: {error}")
            for seq in gone:
                self._forget(seq)
        return bool(gone)

    def drop(self, seq: int) -> None:
        with self._lock:
            self._forget(seq)

    def is_empty(self) -> bool:
        return not self._waiting

    def _forget(self, seq: int) -> None:
        name, _ = self._waiting.pop(seq, ("", None))
        remove(os.path.join(self._folder, name))
