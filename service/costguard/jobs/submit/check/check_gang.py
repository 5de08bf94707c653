"""Validates a job of several VMs, a gang: what cannot be run so is refused before money is spent."""

from __future__ import annotations

from collections.abc import Iterator

from costguard.jobs.submit.submission import JobRefusal
from costguard.model import buying
from costguard.model.duration import span_text
from costguard.model.job import JobKind, JobSpec
from costguard.model.launch import COMPACT_SERIES, Placement, Recipe, takes_compact_placement
from costguard.model.words import count_text, list_text
from costguard_vm.model.checkpoint import Framework

# Programs that start the processes of a VM and read its place among the others from the environment, or are given it.
LAUNCHERS = ("torchrun", "accelerate", "accelerate-launch", "deepspeed")
_MODULES = ("torch.distributed", "accelerate.commands.launch", "deepspeed.launcher.runner", "torchrun", "jax")


# Of DeepSpeed, a checkpoint is loaded by another number of ranks only once its utility ds_to_universal.py has converted
# it (Megatron-DeepSpeed, examples_deepspeed/universal_checkpointing/README.md).
_FIXED_WIDTH = ("deepspeed", "deepspeed.launcher.runner")
# What sets the number of VMs or processes by itself, whatever the round has: variables, and options of launchers.
_OF_WIDTH = ("NNODES", "WORLD_SIZE", "PET_NNODES", "JAX_NUM_PROCESSES", "RANK", "NODE_RANK", "PET_NODE_RANK")
_WIDTH_OPTIONS = (
    *("--nnodes", "--node_rank", "--node-rank", "--num_machines", "--num-machines"),
    *("--machine_rank", "--num_processes", "--num-processes"),
)


def gang_problems(spec: JobSpec) -> Iterator[JobRefusal]:
    """Lists what a job of several VMs cannot have."""
    if spec.placement is Placement.COMPACT and spec.nodes <= 1:
        yield JobRefusal(
            "placement", "One VM stands close to no other: leave the placement out, or give a number of VMs (--nodes)."
        )
    if spec.nodes <= 1:
        return
    if spec.kind is JobKind.DEV:
        yield JobRefusal(
            "nodes", "A development VM is one VM: leave nodes out, and launch several where you need them."
        )
    plan = spec.checkpoint
    if spec.is_elastic:
        yield from _elastic_problems(spec)
    if plan is not None and plan.is_on_disk:
        message = (
            "Each VM would hold a part of the checkpoints on its disk, and a lost one takes its part with it: save "
            "at a location such as gs://bucket/run-1, and name the folder where the command saves (--local)."
        )
        yield JobRefusal("checkpoint.location", message)


def _elastic_problems(spec: JobSpec) -> Iterator[JobRefusal]:
    """Lists what cannot go on with another number of VMs than it began with."""
    plan, words = spec.checkpoint, [word.rpartition("/")[2] for word in spec.command]
    fixed = f"give one number, such as --nodes {spec.nodes}"
    is_deepspeed = plan is not None and plan.look_for.framework is Framework.DEEPSPEED
    if is_deepspeed or "--use_deepspeed" in words or any(word in _FIXED_WIDTH for word in words):
        message = "DeepSpeed's checkpoints fit the number of VMs that saved them, unless they are converted"
        yield JobRefusal("nodes", f"{message}: {fixed}.")
    set_by_user = [name for name in _OF_WIDTH if name in spec.environment]
    set_by_user += [word for word in words if word.partition("=")[0] in _WIDTH_OPTIONS]
    if set_by_user:
        names = ", ".join(set_by_user)
        yield JobRefusal("nodes", f"The number of VMs is set for all rounds ({names}): leave that out, or {fixed}.")


def gang_recipe_problems(spec: JobSpec, recipe: Recipe) -> Iterator[JobRefusal]:
    """Lists what of the preset's recipe does not suit several VMs."""
    if spec.nodes > 1 and set(buying.models_of(recipe)) <= {buying.FLEX}:
        yield from _flex_problems(spec, recipe)
    if spec.placement is Placement.COMPACT:
        yield from _compact_problems(recipe)


def _flex_problems(spec: JobSpec, recipe: Recipe) -> Iterator[JobRefusal]:
    """Lists why a group cannot make the VMs of this job by flex-start."""
    if spec.is_elastic:
        message = (
            f"Google grants flex-start VMs of a group all at once or not at all: give one number, such as --nodes "
            f"{spec.nodes}, or buy them as spot or demand."
        )
        yield JobRefusal("nodes", message)
    if spec.placement is Placement.COMPACT:
        message = "Several flex-start VMs are made by a group, which the job's placement policy is not for"
        yield JobRefusal("placement", f"{message}: leave the placement out, or buy them as spot or demand.")
    if not recipe.service_account:
        yield JobRefusal(
            "overrides.buy", f"{_NO_ACCOUNT}: give the preset launch.service_account, or buy as spot or demand."
        )


_NO_ACCOUNT = (
    "Several flex-start VMs are made by a group, of which each proves to this guard by its service account which VM it "
    "is, and this preset's VMs have none"
)


def _compact_problems(recipe: Recipe) -> Iterator[JobRefusal]:
    """Lists why Google would not place the VMs of the recipe close together.

    Of a reservation, only one that was made with the policy takes VMs that name it ("Placement policies overview").
    """
    if not takes_compact_placement(recipe.machine_type):
        series = recipe.machine_type.partition("-")[0].upper()
        yield JobRefusal(
            "placement",
            f"Google has no compact placement for the machine series {series} ({recipe.machine_type}): leave the "
            f"placement out, or use one of {list_text([one.upper() for one in COMPACT_SERIES])}.",
        )
    if recipe.reservation:
        yield JobRefusal(
            "placement",
            f"The VMs of reservation {recipe.reservation} stand where it was made, and a placement policy of the job "
            "does not fit it: leave the placement out.",
        )


def gang_warnings(spec: JobSpec, recipe: Recipe) -> Iterator[str]:
    """Warns where nothing in the command forms one training of several VMs, and of what fewer of them mean."""
    if spec.is_elastic:
        yield from _elastic_warnings(spec)
    may_flex = spec.may_come_at_once and buying.has_group_identity(recipe)
    if spec.nodes > 1 and recipe.buys_cheapest and buying.FLEX in buying.models_of(recipe) and not may_flex:
        why = "its VMs have no service account"
        if not spec.may_come_at_once:
            why = "their number is a range" if spec.is_elastic else "they are to stand close together"
        yield f"Flex-start is left out: it grants several VMs all at once by a group, and {why}."
    if spec.nodes <= 1 or not spec.command or _is_launched(spec.command):
        return
    variables = "RANK and WORLD_SIZE" if recipe.gpu_count <= 1 else "MASTER_ADDR, NODE_RANK and NNODES, but no RANK"
    names = ", ".join(LAUNCHERS)
    yield (
        f"The command does not begin with a launcher ({names}): every VM runs it once, with {variables} in its "
        "environment. A script that does not read them trains the same on each VM."
    )


def _elastic_warnings(spec: JobSpec) -> Iterator[str]:
    least, most = count_text(spec.fewest, "VM"), count_text(spec.nodes, "VM")
    time = ""
    if spec.work is not None:
        longest = span_text(spec.work * spec.nodes / spec.fewest)
        time = f": {span_text(spec.work)} become up to {longest}"
    yield (
        f"Its price and its ceiling are reckoned for {most}. With {least} an hour costs less and the work takes longer"
        f"{time}, if each VM adds as much speed as any other."
    )
    layout = spec.checkpoint.look_for.framework if spec.checkpoint is not None else None
    if layout is Framework.MEGATRON:
        yield (
            "Another number of VMs loads Megatron's checkpoints in the format torch_dist alone, and not in the older "
            "format torch."
        )
    elif not _is_launched(spec.command):
        yield (
            f"With --nodes {spec.vm_count} each round may have another number of VMs: the script must read it as it "
            "starts, and load a checkpoint that another number of them saved."
        )


def _is_launched(command: tuple[str, ...]) -> bool:
    words = [word.rpartition("/")[2] for word in command]
    text = " ".join(command)
    return any(word in LAUNCHERS for word in words) or any(name in text for name in _MODULES)
