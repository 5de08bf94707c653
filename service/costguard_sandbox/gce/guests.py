"""The processes inside VMs, as the lifecycle sees them, and the requests that wait for changes of their metadata."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto

from costguard_sandbox.gce.vm import VM, Attachment, Disk


class Ending(Enum):
    """The way in which a VM's processes are stopped."""

    PREEMPTION = auto()  # SIGTERM, and SIGKILL after Google's 30 seconds
    SHUTDOWN = auto()  # the same, after the longer time of a stop
    POWER_CUT = auto()  # SIGKILL at once


class Guests:
    """The default: nothing runs in any VM. Callers hold the cloud's lock."""

    def address(self, vm: VM) -> str:  # noqa: ARG002
        """Returns the internal address that a new VM needs for its processes; "" where it needs none."""
        return ""

    def up(self, vm: VM) -> None:
        """The VM is RUNNING: it boots or resumes."""

    def down(self, vm: VM, ending: Ending) -> None:
        """The VM goes down; a second call can only shorten the remaining time."""

    def has(self, vm: VM) -> bool:  # noqa: ARG002
        """Says whether processes of the VM run."""
        return False

    def suspend(self, vm: VM) -> None: ...

    def when_gone(self, vm: VM, act: Callable[[], None]) -> None:  # noqa: ARG002
        """Calls `act` once no process of the VM runs, perhaps now; then, too, with the cloud locked."""
        act()

    def attach(self, vm: VM, held: Attachment) -> None: ...

    def detach(self, vm: VM, held: Attachment) -> None:
        """The disk leaves the VM with its files."""

    def erase(self, disk: Disk) -> None: ...

    def serial_output(self, vm: VM) -> tuple[int, bytes]:  # noqa: ARG002
        """(bytes dropped from the beginning, what the VM printed after them)."""
        return 0, b""

    def serve_at(self, url: str) -> None:
        """The address of the metadata servers; VMs that came up before boot now."""

    def close(self) -> None:
        """Ends every process. The cloud must not be locked."""

    def __bool__(self) -> bool:
        """Says whether VMs can run processes at all."""
        return False


class MetadataWatch:
    """A request that waits for a change of a VM's metadata."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self.is_waiting = False

    def wake(self) -> None:
        """Wakes the request, from any thread."""
        with suppress(RuntimeError):  # its server has ended
            self._loop.call_soon_threadsafe(self._changed.set)

    async def wait(self, seconds: float | None) -> bool:
        """Says whether there was a change, now or since the last call."""
        self.is_waiting = True
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        self._changed.clear()
        return True


class MetadataWatches:
    """Wakes the waiting requests after a change, and all of them when the server ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_vm: dict[int, set[MetadataWatch]] = {}
        self.is_closed = False

    @contextmanager
    def watching(self, vm: int) -> Iterator[MetadataWatch]:
        """Read the metadata inside the block only, or a change before it is missed."""
        watch = MetadataWatch()
        with self._lock:
            self._by_vm.setdefault(vm, set()).add(watch)
        try:
            yield watch
        finally:
            with self._lock:
                self._by_vm[vm].discard(watch)
                if not self._by_vm[vm]:
                    del self._by_vm[vm]

    def wake(self, vm: int) -> None:
        with self._lock:
            for watch in self._by_vm.get(vm, ()):
                watch.wake()

    def open(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True
        with self._lock:
            for watches in self._by_vm.values():
                for watch in watches:
                    watch.wake()

    def waiting(self, vm: int) -> int:
        """Counts the requests that wait for this VM now."""
        with self._lock:
            return sum(watch.is_waiting for watch in self._by_vm.get(vm, ()))
