"""Compares what runs of one script cost on each machine: for 1,000 steps, and until their metric was as good. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from costguard.jobs.decide.machines.bound_savings import script_of
from costguard.model.job import Job, JobKind, JobSpec
from costguard.model.money import Money, Priced
from costguard.model.reported.metric import HIGHER

# Preset, machine type, GPU type and count.
Machine: TypeAlias = tuple[str, str, str, int]


class MetricReached(NamedTuple):
    """A value of a metric, and what the run had cost by then; None: not known."""

    value: float
    cost: Money | None


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """A run of a script. `steps` are those that count: work that was done again after a preemption counts once.

    `curve` is its metric in order, without what was done again; empty where it printed none, or went on from the
    checkpoint of an earlier run, whose cost is not its own.
    """

    job: Job
    cost: Priced
    steps: int | None
    curve: Sequence[MetricReached] = ()
    is_same_command: bool = True

    @property
    def machine(self) -> Machine:
        recipe = self.job.recipe
        return self.job.spec.preset, recipe.machine_type, recipe.gpu_type, recipe.gpu_count

    @property
    def is_known(self) -> bool:
        """Says whether its steps and all of its cost are known."""
        return bool(self.steps) and self.cost.whole and bool(self.cost.amount)


@dataclass(frozen=True, slots=True)
class MachineCost:
    """Holds what runs of the script cost on one machine. Unknown is None.

    `per_1000_steps` is what its runs with known steps and cost cost together, by their steps. `to_reach` is the cost of
    `reached_by`, its run that got the furthest, until its metric first was at the common value.
    """

    machine: Machine
    runs: Sequence[ScriptRun]
    steps: int | None
    per_1000_steps: Money | None
    best: float | None
    to_reach: Money | None
    reached_by: str | None  # a job's id

    @property
    def preset(self) -> str:
        return self.machine[0]

    @property
    def machine_type(self) -> str:
        return self.machine[1]

    @property
    def gpu_type(self) -> str:
        return self.machine[2]

    @property
    def gpu_count(self) -> int:
        return self.machine[3]

    @property
    def in_words(self) -> str:
        return f"{self.preset} ({self.machine_type})"


@dataclass(frozen=True, slots=True)
class ScriptComparison:
    """The cheapest machine first. `target` is the best value that a run on every compared machine reached.

    It is None where fewer than two machines have a metric to compare.
    """

    machines: Sequence[MachineCost]
    target: float | None

    @property
    def text(self) -> str:
        """`h100 (a3-highgpu-1g) is the cheapest: $0.41 for 1,000 steps, 31% less than a100 (a2-highgpu-1g)`.

        Empty where nothing compares.
        """
        by_metric = self.target is not None
        priced = [(one, cost) for one in self.machines if (cost := one.to_reach if by_metric else one.per_1000_steps)]
        if len(priced) < 2:
            return ""
        (first, least), (second, more) = sorted(priced, key=lambda one: one[1])[:2]
        what = "until its metric was as good" if by_metric else "for 1,000 steps"
        if least == more:
            return f"{first.in_words} costs {least} {what}, as {second.in_words} does"
        saved = 100 * (more.nanos - least.nanos) // more.nanos
        return f"{first.in_words} is the cheapest: {least} {what}, {saved}% less than {second.in_words}"


def compare(runs: Iterable[ScriptRun], better: str) -> ScriptComparison:
    """Compares runs by machine. `better` is the better direction of their metric: "lower" or "higher"."""
    by_machine: dict[Machine, list[ScriptRun]] = {}
    for run in runs:
        by_machine.setdefault(run.machine, []).append(run)
    compared = ((machine, _furthest(some, better)) for machine, some in by_machine.items())
    furthest = {machine: run for machine, run in compared if run is not None}
    target = _worst((_best(run, better) for run in furthest.values()), better) if len(furthest) > 1 else None
    costs = [_cost(machine, some, furthest.get(machine), target, better) for machine, some in by_machine.items()]
    return ScriptComparison(sorted(costs, key=_order), target)


def _cost(
    machine: Machine, runs: Sequence[ScriptRun], furthest: ScriptRun | None, target: float | None, better: str
) -> MachineCost:
    counted = [run for run in runs if run.is_known]
    steps = sum(run.steps or 0 for run in counted)
    paid = sum(run.cost.amount.nanos for run in counted)
    is_reached = furthest is not None and target is not None
    return MachineCost(
        machine=machine,
        runs=runs,
        steps=steps or None,
        per_1000_steps=Money(paid * 1000 // steps) if steps else None,
        best=None if furthest is None else _best(furthest, better),
        to_reach=reached(furthest.curve, target, better) if furthest is not None and target is not None else None,
        reached_by=furthest.job.id if furthest is not None and is_reached else None,
    )


def reached(curve: Iterable[MetricReached], target: float, better: str) -> Money | None:
    """The cost by the first value that is as good as the target; None: none is, or it is not known."""
    at_least = (point for point in curve if (point.value >= target if better == HIGHER else point.value <= target))
    first = next(at_least, None)
    return None if first is None else first.cost


def _furthest(runs: Sequence[ScriptRun], better: str) -> ScriptRun | None:
    """The run with the best value; of equals the first."""
    with_metric = [run for run in runs if run.curve]
    pick = max if better == HIGHER else min
    return pick(with_metric, key=lambda run: _best(run, better), default=None)


def _best(run: ScriptRun, better: str) -> float:
    return (max if better == HIGHER else min)(point.value for point in run.curve)


def _worst(values: Iterable[float], better: str) -> float:
    return (min if better == HIGHER else max)(values)


def _order(one: MachineCost) -> tuple[bool, Money, bool, Money]:
    return (
        one.to_reach is None, one.to_reach or Money(), one.per_1000_steps is None, one.per_1000_steps or Money(),
    )  # fmt: skip


def is_one_script(spec: JobSpec, other: JobSpec) -> bool:
    """Says whether two trainings run one script, whatever their machine and its options.

    Either they brought the same code (its archive, or its commit) and run the same script of it. Or they have the same
    command line and image, and one owner, or an image that holds their code: `python train.py` alone says little.
    """
    if JobKind.DEV in (spec.kind, other.kind) or spec.project != other.project:
        return False
    if _same_code(spec, other) and _script(spec) == _script(other):
        return True
    is_same_line = bool(spec.command or spec.image) and spec.command == other.command
    is_in_image = bool(spec.image) and spec.code is None and other.code is None
    may_be_one = spec.owner == other.owner or is_in_image
    return is_same_line and may_be_one and _image_name(spec.image) == _image_name(other.image)


def _same_code(spec: JobSpec, other: JobSpec) -> bool:
    code, before = spec.code, other.code
    if code is None or before is None:
        return False
    return code.sha256 == before.sha256 or (bool(code.commit) and code.commit == before.commit)


def _script(spec: JobSpec) -> str:
    """The script's name, or the program where it names none."""
    return script_of(spec.command) or (spec.command[0] if spec.command else "")


def _image_name(image: str) -> str:
    """An image without its tag or digest: `registry:5000/lab/train` of registry:5000/lab/train:7."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"
