"""Validates a job of several VMs, a gang: what cannot be run so is refused before money is spent."""

from __future__ import annotations

from collections.abc import Iterator

from costguard.jobs.submit.submission import JobRefusal
from costguard.model import buying
from costguard.model.job import JobKind, JobSpec
from costguard.model.launch import Recipe

# Programs that start the processes of a VM and read its place among the others from the environment, or are given it.
LAUNCHERS = ("torchrun", "accelerate", "accelerate-launch", "deepspeed")
_MODULES = ("torch.distributed", "accelerate.commands.launch", "deepspeed.launcher.runner", "torchrun", "jax")


def gang_problems(spec: JobSpec) -> Iterator[JobRefusal]:
    """Lists what a job of several VMs cannot have."""
    if spec.nodes <= 1:
        return
    if spec.kind is JobKind.DEV:
        yield JobRefusal(
            "nodes", "A development VM is one VM: leave nodes out, and launch several where you need them."
        )
    plan = spec.checkpoint
    if plan is not None and plan.is_on_disk:
        message = (
            "Each VM would hold a part of the checkpoints on its disk, and a lost one takes its part with it: save "
            "at a location such as gs://bucket/run-1, and name the folder where the command saves (--local)."
        )
        yield JobRefusal("checkpoint.location", message)


def gang_recipe_problems(spec: JobSpec, recipe: Recipe) -> Iterator[JobRefusal]:
    """Lists what of the preset's recipe does not suit several VMs."""
    if spec.nodes > 1 and set(buying.models_of(recipe)) <= {buying.FLEX}:
        message = (
            "Google grants flex-start VMs one by one, and those that come first would bill while they wait for the "
            "last: buy them as spot or demand."
        )
        yield JobRefusal("overrides.buy", message)


def gang_warnings(spec: JobSpec, recipe: Recipe) -> Iterator[str]:
    """Warns where nothing in the command forms one training of several VMs."""
    if spec.nodes <= 1 or not spec.command or _is_launched(spec.command):
        return
    variables = "RANK and WORLD_SIZE" if recipe.gpu_count <= 1 else "MASTER_ADDR, NODE_RANK and NNODES, but no RANK"
    names = ", ".join(LAUNCHERS)
    yield (
        f"The command does not begin with a launcher ({names}): every VM runs it once, with {variables} in its "
        "environment. A script that does not read them trains the same on each VM."
    )


def _is_launched(command: tuple[str, ...]) -> bool:
    words = [word.rpartition("/")[2] for word in command]
    text = " ".join(command)
    return any(word in LAUNCHERS for word in words) or any(name in text for name in _MODULES)
