"""VMs as local processes: each runs its startup script in a directory of its own and ends as a VM does."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from costguard_sandbox.gce.guests import Ending, Guests
from costguard_sandbox.gce.vm import VM, Attachment, Disk, Status
from costguard_sandbox.guest import nvml
from costguard_sandbox.guest.addresses import LoopbackAddresses
from costguard_sandbox.guest.boot import BootOrder, Guest, has_docker, put_tools, python_of
from costguard_sandbox.guest.init_process import SHUTDOWN, STARTUP
from costguard_sandbox.guest.metadata import attributes, metadata_path
from costguard_sandbox.guest.nvidia_smi import GPUS

DOCKERS = ("auto", "shim", "host")
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,62}")
_SERIAL_BYTES = 1 << 20  # Google keeps as much


class CannotRunGuests(ValueError):
    """This system cannot run VMs as processes; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class LocalGuestSettings:
    """Settings of VMs as local processes. All times are in real seconds, whatever the speed of the simulated clock.

    Without a `folder`, the VMs' directories are in a temporary one that is deleted with the simulated cloud. `docker`:
    `auto` gives VMs a stand-in when no Docker daemon answers here, `shim` always, `host` never. Containers of a real
    Docker belong to its daemon: they do not end with the VM.

    `own_folders` are whole paths that commands name, such as `/data`: VMs share this computer's files, so each path is
    made a link to a folder on the disk of the VM that booted last. That suits one VM at a time.

    `gpus`: agents can read how much GPUs are used, as far as a training counts it in the file of SIMULATED_GPU.

    `pace`: the number of seconds of the simulated clock that agents on these VMs take one of theirs for.
    """

    folder: Path | None = None
    boot: timedelta = timedelta(seconds=2)
    preemption_grace: timedelta = timedelta(seconds=30)
    stop_grace: timedelta = timedelta(seconds=90)
    docker: str = "auto"
    path: str = os.defpath
    language: str = "C.UTF-8"
    own_folders: tuple[Path, ...] = ()
    gpus: bool = False
    pace: float = 1.0


class LocalGuests(Guests):
    """Runs VMs that have a startup script, each under an init process with a thread that waits for its end.

    Each of these VMs has an internal address of its own on this computer, at which the others reach its processes.
    """

    def __init__(
        self,
        settings: LocalGuestSettings,
        settled: Callable[[], AbstractContextManager[object]],
        platform: str = sys.platform,
    ) -> None:
        if platform != "linux":
            raise CannotRunGuests(
                f"VMs run as local processes on Linux only, and this is {platform}: leave out that option,"
                " or start the simulated cloud in a Linux container"
            )
        self._settings = settings
        self._settled = settled
        self._own_folder = settings.folder is None
        folder = settings.folder or Path(tempfile.mkdtemp(prefix="costguard-sandbox-"))
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder.resolve()
        self._url = ""
        self._guests: dict[int, Guest] = {}
        self._boots: Counter[int] = Counter()
        self._used: set[int] = set()  # the disks that have a directory
        self._early: list[tuple[VM, int]] = []
        self._addresses = LoopbackAddresses()
        self._with_shim: bool | None = {"shim": True, "host": False}.get(settings.docker)
        self._shim_lock = threading.Lock()

    def __bool__(self) -> bool:
        return True

    def address(self, vm: VM) -> str:
        return self._addresses.of(vm) if STARTUP in attributes(vm) else ""

    def disk(self, vm: VM) -> Path:
        """The directory that stands for the VM's boot disk; its files belong to whichever VM has the disk."""
        return self._directory(vm.boot_disk) if vm.boot_disk else self._folder / str(vm.id)

    def _directory(self, disk: Disk) -> Path:
        return self._folder / str(disk.id)

    def up(self, vm: VM) -> None:
        guest = self._guests.get(vm.id)
        if guest is not None and guest.is_suspended:
            guest.resume()
        elif guest is not None:
            booted = vm.transition
            guest.when_gone(lambda: self._boot(vm, booted))
        elif self._url:
            self._boot(vm, vm.transition)
        else:
            self._early.append((vm, vm.transition))

    def has(self, vm: VM) -> bool:
        return vm.id in self._guests

    def down(self, vm: VM, ending: Ending) -> None:
        guest = self._guests.get(vm.id)
        if guest is None:
            return
        if guest.is_suspended or ending is Ending.POWER_CUT:
            guest.cut()
        else:
            grace = self._settings.preemption_grace if ending is Ending.PREEMPTION else self._settings.stop_grace
            guest.end(grace, attributes(vm).get(SHUTDOWN, ""))

    def suspend(self, vm: VM) -> None:
        if guest := self._guests.get(vm.id):
            guest.suspend()

    def when_gone(self, vm: VM, act: Callable[[], None]) -> None:
        guest = self._guests.get(vm.id)
        if guest is None:
            act()
        else:
            guest.when_gone(act)

    def attach(self, vm: VM, held: Attachment) -> None:
        """Other disks than the boot disk are under `mnt/disks/DEVICE_NAME`, as if mounted there."""
        if vm.id in self._guests:
            self._mount(vm, held)

    def _mount(self, vm: VM, held: Attachment) -> None:
        place = self._mount_point(vm, held)
        if place is None or held.disk is None:
            return
        self._empty_if_new(held.disk)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(self._directory(held.disk))

    def _link_own_folders(self, vm: VM) -> None:
        for place in self._settings.own_folders:
            folder = self.disk(vm) / place.relative_to(place.anchor)  # as containers see it
            folder.mkdir(parents=True, exist_ok=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(folder)

    def detach(self, vm: VM, held: Attachment) -> None:
        if place := self._mount_point(vm, held):
            place.unlink(missing_ok=True)

    def erase(self, disk: Disk) -> None:
        shutil.rmtree(self._directory(disk), ignore_errors=True)

    def _mount_point(self, vm: VM, held: Attachment) -> Path | None:
        if held.boot or not _FILE_NAME.fullmatch(held.device_name):
            return None
        return self.disk(vm) / "mnt/disks" / held.device_name

    def _empty_if_new(self, disk: Disk) -> None:
        """Delete the files that an earlier simulation with this seed has left."""
        if disk.id not in self._used:
            self._used.add(disk.id)
            shutil.rmtree(self._directory(disk), ignore_errors=True)
            self._directory(disk).mkdir(parents=True)

    def _serial(self, vm: VM) -> Path:
        return self._folder / f"serial-port-1-{vm.id}.log"

    def serial_output(self, vm: VM) -> tuple[int, bytes]:
        try:
            with self._serial(vm).open("rb") as serial:
                dropped = serial.seek(max(0, os.fstat(serial.fileno()).st_size - _SERIAL_BYTES))
                return dropped, serial.read(_SERIAL_BYTES)
        except OSError:
            return 0, b""

    def serve_at(self, url: str) -> None:
        with self._settled():
            self._url = url
            early, self._early = self._early, []
            for vm, transition in early:
                self._boot(vm, transition)

    def close(self) -> None:
        with self._settled():
            self._url = ""
            left = list(self._guests.values())
            for guest in left:
                guest.cut()
        for guest in left:
            guest.join()
        self._addresses.close()
        if self._own_folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _boot(self, vm: VM, transition: int) -> None:
        script = attributes(vm).get(STARTUP, "")
        if not script or not self._url or vm.transition != transition or vm.status is not Status.RUNNING:
            return
        if vm.boot_disk is not None:
            self._empty_if_new(vm.boot_disk)
        if vm.id not in self._boots:
            self._serial(vm).unlink(missing_ok=True)
        self._boots[vm.id] += 1
        shutil.rmtree(self.disk(vm) / "mnt/disks", ignore_errors=True)  # of a VM that had this boot disk earlier
        for held in vm.attachments:
            self._mount(vm, held)
        self._link_own_folders(vm)
        order = BootOrder(
            self.disk(vm),
            self._serial(vm),
            script,
            self._settings.boot,
            self._environment(vm),
            lambda: self._prepare(vm),
        )
        self._guests[vm.id] = Guest(order, lambda guest: self._gone(vm, guest))

    def _prepare(self, vm: VM) -> None:
        """Prepares a VM in the guest's thread, since finding Docker may take seconds."""
        with self._shim_lock:
            if self._with_shim is None:
                self._with_shim = not has_docker(self._settings.path)
        put_tools(self.disk(vm) / "bin", vm, self.disk(vm), self._settings.path, with_docker=self._with_shim)

    def _environment(self, vm: VM) -> dict[str, str]:
        """Returns the environment.

        Only PATH comes from this process: programs in a VM must not see the host's secrets.
        """
        disk = self.disk(vm)
        return {
            "PATH": f"{disk / 'bin'}:{disk / 'usr/local/bin'}:{self._settings.path}",
            **python_of(disk),
            "LANG": self._settings.language,
            "HOME": str(disk / "root"),
            "TMPDIR": str(disk / "tmp"),
            "COSTGUARD_METADATA": f"{self._url}{metadata_path(vm)}",
            "COSTGUARD_HOME": str(disk / "var/lib/costguard"),
            "COSTGUARD_LOGS": str(disk / "var/log/costguard"),
            "COSTGUARD_VOLATILE": str(disk / "run/costguard"),
            "COSTGUARD_VOLUMES": str(disk),
            "COSTGUARD_BOOT_ID": f"{vm.id}-{self._boots[vm.id]}",  # unlike the host's, new at each boot
            "COSTGUARD_WITHOUT_SYSTEMD": "1",
            "COSTGUARD_PACE": f"{self._settings.pace:g}",
            **(self._gpus(vm) if self._settings.gpus and vm.shape.gpu_count else {}),
        }

    def _gpus(self, vm: VM) -> dict[str, str]:
        """Returns where its agent finds the simulated driver, and its command the file that the driver reads."""
        used = self.disk(vm) / "run/gpu-seconds"
        used.parent.mkdir(parents=True, exist_ok=True)
        name, _ = GPUS.get(vm.shape.gpu_type, (vm.shape.gpu_type, ""))
        return {
            "COSTGUARD_NVML": nvml.__file__,
            "COSTGUARD_GPUS": f"{name}|{vm.shape.gpu_count}|{used}",
            "SIMULATED_GPU": str(used),
        }

    def _gone(self, vm: VM, guest: Guest) -> None:
        with self._settled():
            del self._guests[vm.id]
            guest.act()
