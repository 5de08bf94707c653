"""A command that runs as several processes, one for each GPU: how a launcher starts them, and how all of them end.

torchrun reads each of its options from PET_ and the option's name where it is not given (pytorch/pytorch,
torch/distributed/argparse_util.py), so that `torchrun train.py` starts one process for each GPU of the VM. It starts
them in sessions of their own (pull request 113231 there): SIGTERM reaches them through torchrun, which passes it on and
waits for 30 s, and SIGKILL for the command's group alone would leave them running.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket

from costguard_vm.agent.files import read

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
LOOPBACK = "127.0.0.1"


def rank_variables(gpus: int) -> dict[str, str]:
    """The variables of the command; without a GPU it is one process. The port was free when it was chosen."""
    processes, port = str(max(1, gpus)), str(_free_port())
    return {
        "COSTGUARD_GPUS": str(gpus),
        "COSTGUARD_NPROC": processes,
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": port,
        "PET_NPROC_PER_NODE": processes,
        "PET_MASTER_ADDR": LOOPBACK,
        "PET_MASTER_PORT": port,
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port


def adopt_orphans() -> None:
    """Processes whose parent ends become children of this one, not of the VM's init, so that they can be found."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(parent: int) -> list[int]:
    """The processes that it started, and those that these started, in whatever session; the nearest first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            fields = read(f"/proc/{name}/stat").rpartition(")")[2].split()
            if len(fields) > 1:
                children.setdefault(int(fields[1]), []).append(int(name))
    family = list(children.get(parent, ()))
    for process in family:
        family += children.get(process, ())
    return family


def kill_tree(processes: list[int]) -> None:
    for process in processes:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)
