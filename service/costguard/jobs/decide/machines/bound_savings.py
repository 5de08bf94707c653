"""Estimates the cost of a bound, the most that a remedy such as a larger VM saves, and the saving of a change. Pure."""

from __future__ import annotations

import os.path
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction

from costguard.model.duration import span_text
from costguard.model.instance import Shape
from costguard.model.job import JobSpec
from costguard.model.money import Money

_PARTS = 1_000_000


@dataclass(frozen=True, slots=True)
class PromisedSaving:
    """Up to so much: of each hour, and of what is left of the run (None: how long that takes is not known)."""

    share: float
    per_hour: Money | None
    total: Money | None
    span: timedelta | None


@dataclass(frozen=True, slots=True)
class AchievedSaving:
    """The saving against an earlier job with the same script, by the cost of a step, if a step does as much in both.

    `share` is the part by which a step costs less, below zero where it costs more; `promised` the saving that was
    announced at best.
    """

    job_id: str
    bound: str
    promised: float | None
    share: float
    faster: float  # steps per second, now over then


def promised(share: float | None, rate: Money | None, left: timedelta | None) -> PromisedSaving | None:
    """Returns the saving of a run that waits for this share of its time; at best it does the same work in the rest of
    it.
    """
    if share is None:
        return None
    per_hour = None if rate is None else _part(rate, share)
    total = None if rate is None or left is None else _part(rate.over(left), share)
    return PromisedSaving(share, per_hour, total, None if left is None else left * share)


def _part(money: Money, share: float) -> Money:
    return Money(money.nanos * round(share * _PARTS) // _PARTS)


def saving_text(saving: PromisedSaving | None) -> str:
    """`up to $12.30 and 4 h of what is left`; empty where nothing is promised."""
    if saving is None:
        return ""
    if saving.total is not None and saving.span is not None:
        return f"up to {saving.total} and {span_text(saving.span)} of what is left"
    of_time = f"up to {saving.share:.0%} of the time that is left, which is not known"
    return of_time if saving.per_hour is None else f"{of_time}: {saving.per_hour} of each hour"


def achieved_text(saving: AchievedSaving | None) -> str:
    """`a step costs 31% less than in job j1 (1.45 times as fast); up to 45% had been expected`."""
    if saving is None:
        return ""
    how = f"{saving.share:.0%} less" if saving.share >= 0 else f"{-saving.share:.0%} more"
    text = f"a step costs {how} than in job {saving.job_id} ({saving.faster:.2f} times as fast)"
    return f"{text}; up to {saving.promised:.0%} had been expected" if saving.promised is not None else text


def time_left(
    step: int | None, total: int | None, steps_per_s: float | None, work: timedelta | None, worked: timedelta | None
) -> timedelta | None:
    """Estimates the time left by its steps and their pace, else by its owner's estimate of the work less the time that
    it has run.
    """
    if step is not None and total is not None and steps_per_s:
        return timedelta(seconds=max(0, total - step) / steps_per_s)
    if work is not None and worked is not None:
        return max(timedelta(), work - worked)
    return None


@dataclass(frozen=True, slots=True)
class PacedJob:
    """The pace of a job in steps, and its hourly cost; `bound` and `promised` are of its last held verdict."""

    job_id: str
    steps_per_s: float
    rate: Money
    bound: str
    promised: float | None


def achieved(before: PacedJob, now: PacedJob) -> AchievedSaving:
    faster = now.steps_per_s / before.steps_per_s
    dearer = Fraction(now.rate.nanos, before.rate.nanos)
    return AchievedSaving(before.job_id, before.bound, before.promised, 1 - float(dearer) / faster, faster)


def is_same_training(spec: JobSpec, other: JobSpec) -> bool:
    """Says whether one may be the other after a change: owner, project, GPU preset, and the script that it runs.

    The change itself stands in the options, the environment, the code or the machine type.
    """
    same = (spec.owner, spec.project, spec.preset) == (other.owner, other.project, other.preset)
    return same and script_of(spec.command) is not None and script_of(spec.command) == script_of(other.command)


def script_of(command: Sequence[str]) -> str | None:
    """`train.py` of `torchrun --nproc-per-node 8 src/train.py --lr 1`, or the module after -m; None: there is none."""
    for place, word in enumerate(command):
        if word == "-m" and place + 1 < len(command):
            return command[place + 1]
        if word.endswith((".py", ".sh")):
            return os.path.basename(word)
    return None


# vCPUs of the types with so many L4: cloud.google.com/compute/docs/accelerator-optimized-machines, G2 standard types.
_G2 = {1: (4, 8, 12, 16, 32), 2: (24,), 4: (48,), 8: (96,)}
_N1 = (1, 2, 4, 8, 16, 32, 64, 96)
# The most vCPUs of an N1 VM for each attached GPU: cloud.google.com/compute/docs/gpus, "N1 machine series". In some
# zones Google allows more for some of them; these are the figures that hold in all.
_MOST_FOR_EACH = {
    "nvidia-tesla-k80": 8,
    "nvidia-tesla-v100": 12,
    "nvidia-tesla-p100": 16,
    "nvidia-tesla-p4": 24,
    "nvidia-tesla-t4": 24,
}
_TYPE = re.compile(r"(n1-standard|n1-highmem|g2-standard)-[0-9]+")


def next_larger(shape: Shape) -> Shape | None:
    """The next type of the same series with the same GPUs; None where there is none, or where none is known.

    A2, A3, A4 and G4 types have as many vCPUs as belong to their GPUs.
    """
    match = _TYPE.fullmatch(shape.machine_type)
    if match is None or not shape.gpu_type or not shape.vcpus:
        return None
    if match[1] == "g2-standard":
        sizes = _G2.get(shape.gpu_count, ())
    else:
        most = _MOST_FOR_EACH.get(shape.gpu_type, 0) * shape.gpu_count
        sizes = tuple(size for size in _N1 if size <= most)
    vcpus = next((size for size in sizes if size > shape.vcpus), None)
    if vcpus is None:
        return None
    memory_mib = shape.memory_mib * vcpus // shape.vcpus
    return replace(shape, machine_type=f"{match[1]}-{vcpus}", vcpus=vcpus, memory_mib=memory_mib)
