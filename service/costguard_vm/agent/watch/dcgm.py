"""The hardware's counters of GPUs without GPM (T4, A100), by `dcgmi dmon` where the VM's image runs DCGM.

Fields of DCGM's user guide, "Profiling Metrics"; shares are from 0 to 1, NVLink is in bytes per second. dmon prints a
head of short names now and then, and a row for each GPU; those of MIG instances begin with GPU-I or GPU-CI.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable
from typing import Dict, List

FIELDS = {  # of GpuSignals, by dmon's short name
    "SMACT": "sm_active",
    "SMOCC": "sm_occupancy",
    "TENSO": "tensor_active",
    "DRAMA": "dram_active",
    "FP32A": "fp32_active",
    "NVLTX": "nvlink_out",
    "NVLRX": "nvlink_in",
}
COMMAND = ("dcgmi", "dmon", "-e", "1002,1003,1004,1005,1007,1011,1012", "-d", "10000")
AGAIN_S = 600.0  # after dmon ended: without its service it does so at once
_HEAD = re.compile(r"#\s*Entity\s+(.+)")
_ROW = re.compile(r"GPU\s+(\d+)\s+(.+)")
Values = Dict[int, Dict[str, List[float]]]


class DcgmTable:
    """Reads dmon's lines as they come."""

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._values: Values = {}

    def read(self, line: str) -> None:
        head, row = _HEAD.match(line.strip()), _ROW.match(line.strip())
        if head:
            self._columns = head.group(1).split()
        cells = row.group(2).split() if row else []
        if row and len(cells) == len(self._columns):
            gpu = self._values.setdefault(int(row.group(1)), {})
            for column, cell in zip(self._columns, cells):
                if column in FIELDS and re.fullmatch(r"\d+(\.\d+)?", cell):
                    gpu.setdefault(FIELDS[column], []).append(float(cell))

    def take(self) -> dict[int, dict[str, float]]:
        """The means since the last call, by GPU, as fields of GpuSignals."""
        values, self._values = self._values, {}
        means: dict[int, dict[str, float]] = {}
        for gpu, columns in values.items():
            mean = {name: sum(cells) / len(cells) for name, cells in columns.items()}
            links = [mean.pop(name, None) for name in ("nvlink_out", "nvlink_in")]
            if links[0] is not None and links[1] is not None:
                mean["nvlink_bytes_per_s"] = links[0] + links[1]
            if mean:
                means[gpu] = mean
        return means


def watch_dcgm(table: DcgmTable, is_wanted: Callable[[], bool], over: threading.Event) -> None:
    """Runs dmon while the attempt runs, once it is known that the GPUs need it."""
    while not over.wait(1.0 if not is_wanted() else 0):
        if not is_wanted():
            continue
        if not shutil.which(COMMAND[0]):
            return
        try:
            process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            return
        threading.Thread(target=_end, args=(process, over), daemon=True).start()
        _read(process.stdout or (), table)
        process.wait()
        over.wait(AGAIN_S)


def _read(lines: Iterable[str], table: DcgmTable) -> None:
    for line in lines:
        table.read(line)


def _end(process: subprocess.Popen[str], over: threading.Event) -> None:
    while process.poll() is None:
        if over.wait(5.0):
            process.kill()
            return
