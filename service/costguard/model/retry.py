"""What the output of a failed command says about trying it again."""

from __future__ import annotations

import re
from enum import StrEnum


class Retry(StrEnum):
    """Where a command that failed may do better."""

    NO = "no"  # nowhere: its cause repeats
    OTHER_VM = "other_vm"
    SAME = "same"  # also on the same VM: what was missing may be back


# What the CUDA runtime, PyTorch, NVML and Docker print where a VM's GPU or driver is missing (CUDA Runtime API, 5.3 and
# 6.41; torch/cuda/__init__.py; nvidia-container-cli), and NVIDIA's kernel module of a broken GPU (Xid 48 and 79).
_GPU = re.compile(
    "CUDA driver version is insufficient|no CUDA-capable device is detected|Found no NVIDIA driver on your system"
    "|No CUDA GPUs are available|couldn't communicate with the NVIDIA driver|Driver/library version mismatch"
    "|system not yet initialized|could not select device driver|uncorrectable ECC error|has fallen off the bus"
)
# What glibc, Python's urllib3 and requests, curl and pip print where a name, a host or a service does not answer.
_NETWORK = re.compile(
    "Temporary failure in name resolution|Could not resolve host|Network is unreachable|No route to host"
    "|Connection reset by peer|Connection timed out|Read timed out|Max retries exceeded with url|TLS handshake timeout"
    "|Remote end closed connection without response|50[234] (?:Server Error|Bad Gateway|Service Unavailable|Gateway)"
)
_LONGEST_LINE = 200


def retry_of(output: str) -> Retry | None:
    """None where the output speaks neither of the VM's GPU nor of the network."""
    if _GPU.search(output):
        return Retry.OTHER_VM
    return Retry.SAME if _NETWORK.search(output) else None


def last_line(output: str) -> str:
    """The last line with something in it, cut at 200 characters; of an exception it is the one that names it."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:_LONGEST_LINE] if lines else ""
