"""What runs inside of VMs, as their lifecycle sees it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from costguard_sandbox.gce.vm import VM, Attachment, Disk


class Ending(Enum):
    """How a VM's processes are told that the machine goes down."""

    PREEMPTION = auto()  # SIGTERM, and SIGKILL after the half minute that Google gives
    SHUTDOWN = auto()  # the same, after the longer time of a stop
    POWER_CUT = auto()  # SIGKILL at once


class Guests:
    """Nothing runs in any VM. The world is locked during all calls."""

    def up(self, vm: VM) -> None:
        """The VM is RUNNING: it boots, or goes on where it was suspended."""

    def down(self, vm: VM, ending: Ending) -> None:
        """The VM goes down; a second call can only shorten the time that is left."""

    def has(self, vm: VM) -> bool:  # noqa: ARG002  here nothing runs in whichever VM
        """Whether anything of the VM runs."""
        return False

    def suspend(self, vm: VM) -> None: ...

    def when_gone(self, vm: VM, act: Callable[[], None]) -> None:  # noqa: ARG002
        """Acts as soon as nothing of the VM runs, which may be now. The world is locked then, too."""
        act()

    def attach(self, vm: VM, held: Attachment) -> None:
        """The disk is the VM's from now on."""

    def detach(self, vm: VM, held: Attachment) -> None:
        """The disk leaves the VM with all that is on it."""

    def erase(self, disk: Disk) -> None:
        """The disk is deleted."""

    def serial_output(self, vm: VM) -> tuple[int, bytes]:  # noqa: ARG002
        """What the VM printed, and how much before it was dropped."""
        return 0, b""

    def serve_at(self, url: str) -> None:
        """VMs find their metadata under this address; those that came up before it was known boot now."""

    def close(self) -> None:
        """Nothing of any VM runs afterwards. The world must not be locked."""

    def __bool__(self) -> bool:
        """Whether anything can run at all."""
        return False
