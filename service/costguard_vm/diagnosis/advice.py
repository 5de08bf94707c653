"""Advises on a bound, in one line, and estimates the share of the time that it could save. Pure."""

from __future__ import annotations

from costguard_vm.diagnosis import kinds
from costguard_vm.diagnosis.kinds import BoundVerdict
from costguard_vm.diagnosis.window import SignalWindow

_ROOM = 0.45  # of the GPU's memory in use: a batch twice as large fits, as what is not activations stays as it is


def advise(verdict: BoundVerdict, window: SignalWindow) -> str:
    """Empty where there is nothing to advise."""
    lines = {
        kinds.INPUT_OR_HOST: "allow a look at the main thread's stacks (--stacks): they tell reading from the rest",
        kinds.COMMUNICATION: "accumulate gradients over more steps, use larger batches on each GPU, or fewer GPUs",
        kinds.CHECKPOINT: "save less often, or in the background: the GPU waits for each save",
        kinds.NOT_COMPUTING: "allow a look at the stacks (--stacks): ranks that wait for each other count as use",
        kinds.EVALUATION: "evaluate less often, or on fewer samples",
        kinds.MEMORY_CAPACITY: "recompute activations, shard the optimizer, or take a GPU with more memory",
        kinds.MEMORY_BANDWIDTH: "fuse elementwise operations (torch.compile), and keep activations in bf16",
    }
    special = {kinds.INPUT: _input, kinds.HOST: _host, kinds.THROTTLED: _throttled, kinds.COMPUTE: _compute}
    if verdict.bound in special:
        line = special[verdict.bound](verdict, window)
    else:
        line = _batch(window) if verdict.bound == kinds.GPU else lines.get(verdict.bound, "")
    return "; ".join(part for part in (line, _unused(window)) if part)


def most_saved(verdict: BoundVerdict) -> float | None:
    """The share of the time left that is saved at best, "up to"; None: not known.

    A GPU that waits for a share w of its time finishes at best in 1 - w of it. How much faster another precision or
    batch makes a busy GPU is not known from outside.
    """
    return verdict.share if verdict.bound in kinds.WAITS - {kinds.EVALUATION} else None


def _input(verdict: BoundVerdict, window: SignalWindow) -> str:
    if verdict.cause == kinds.STORAGE:
        return "copy the data to a local SSD first, or take a larger disk: what reads it waits for the disk"
    if verdict.cause == kinds.NETWORK:
        return "download the data before the command starts (--input), or read it with more workers"
    if verdict.cause == kinds.PROCESSORS:
        return f"prepare the data once and store it, or take a VM with more vCPUs: {_cpus(window)}"
    if verdict.cause == kinds.WORKERS:
        more = "more loader workers" if window.command.workers else "loader workers (num_workers above 0)"
        return f"{more}: {_cpus(window)}"
    return "look at how the data is read: why it comes late cannot be seen here"


def _host(verdict: BoundVerdict, window: SignalWindow) -> str:  # noqa: ARG001  one of several
    if verdict.cause == kinds.LAUNCHES:
        return "a larger batch, torch.compile or CUDA graphs: the kernels are shorter than what it takes to launch them"
    return (
        "move work out of the training loop (logging, metrics, .item() at each step), or do it while the GPU computes"
    )


def _throttled(verdict: BoundVerdict, window: SignalWindow) -> str:  # noqa: ARG001  one of several
    if verdict.cause == kinds.HEAT:
        return "nothing in the command: another VM may be cooler; report this one to Google if it lasts"
    return "nothing in the command: the GPU's power is limited; report it to Google if it lasts"


def _compute(verdict: BoundVerdict, window: SignalWindow) -> str:
    if verdict.cause == kinds.FP32:
        return "mixed precision (bf16 or TF32) would use its tensor cores"
    if verdict.cause == kinds.UNDERFILLED:
        return _batch(window) or "larger kernels: torch.compile, or more work in each"
    if verdict.cause == kinds.TENSOR:
        return "nothing: it computes at the hardware's pace"
    return ""


def _batch(window: SignalWindow) -> str:
    used = memory_share(window)
    return f"a batch twice as large fits: {used:.0%} of its memory is used" if used is not None and used < _ROOM else ""


def memory_share(window: SignalWindow) -> float | None:
    gpu = window.gpu
    if gpu is None or not gpu.memory_total_bytes or gpu.memory_used_bytes is None:
        return None
    return gpu.memory_used_bytes / gpu.memory_total_bytes


def _cpus(window: SignalWindow) -> str:
    used, cpus = window.command.cpu, window.host.cpus
    if used is None or cpus is None:
        return "how many vCPUs are used is not known"
    return f"{used:.1f} of {cpus:.0f} {'vCPU is' if cpus == 1 else 'vCPUs are'} used"


def _unused(window: SignalWindow) -> str:
    if not window.gpus_unused or not window.gpus:
        return ""
    return f"{window.gpus_unused:.0f} of {window.gpus:.0f} GPUs do nothing"
