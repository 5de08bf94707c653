"""A submitted job: its overrides, the recipe that follows, and who may launch and cancel it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

from costguard import credentials
from costguard.access.roles import lapsed, operates, role_for
from costguard.access.rules import Access, Rules
from costguard.access.teams import team_of
from costguard.model import buying
from costguard.model.access import Authority, Permission, Role
from costguard.model.delivery.tracker import Tracker
from costguard.model.duration import span_text
from costguard.model.instance import Shape
from costguard.model.job import JobKind, JobSpec
from costguard.model.launch import LONGEST_FLEX_RUN, NOTICES, Recipe
from costguard.model.reminder import Team


def launch_problems(
    preset: str,
    recipe: Recipe,
    overrides: Overrides,
    owner: str,
    access: Access,
    teams: Collection[Team],
    may_override: Collection[str],
    authority: Authority | None = None,
) -> Iterator[JobRefusal]:
    """Operators may launch, with what the preset lets them have otherwise; admins with anything."""
    why = lapsed(owner, access, authority, {Permission.JOBS})
    if why and authority is not None and authority.token_id:
        yield JobRefusal("owner", why)
        return
    if why or not _operates(owner, access, teams, authority):
        yield JobRefusal("owner", f"{shown(owner)} may not launch: ask an admin to be made an operator under [access].")
        return
    if role_for(owner, access, authority) is Role.ADMIN:
        return
    for name in used(recipe, overrides):
        if name not in may_override:
            message = f"The preset {preset} does not let operators choose this: leave it out, or ask an admin to add"
            yield JobRefusal(f"overrides.{name}", f"{message} {name} to overrides under [presets.{preset}.launch].")


def priority_problems(
    spec: JobSpec, access: Access, teams: Collection[Team], authority: Authority | None = None
) -> Iterator[JobRefusal]:
    """Priorities above 0 are for admins and operators of the owner's team; where nobody has a role, for everybody."""
    by = spec.owner if authority is None or not authority.address else authority.address
    if spec.priority <= 0 or not (access.viewers or access.operators or access.admins):
        return
    is_master = authority is not None and not authority.address and authority.role is Role.ADMIN
    team = team_of(spec.project, spec.owner, teams)
    if is_master or role_for(by, access, authority) is Role.ADMIN or (team is not None and by in team.operators):
        return
    whom = f"an operator of team {team.name} or an admin" if team is not None else "an admin"
    yield JobRefusal("priority", f"Only {whom} may give a priority above 0: leave it out, or ask one to launch it.")


def tracker_problems(spec: JobSpec, trackers: Collection[Tracker]) -> Iterator[JobRefusal]:
    """Runs of trackers that this guard cannot log to."""
    for tracker in spec.tracker_runs:
        if tracker not in trackers:
            message = f"This guard does not log to {tracker.in_words}: add [trackers.{tracker.value}] to its settings"
            yield JobRefusal(f"{tracker.value}_run", f"{message}, or leave the run out.")


MOST_DIFF = 20_000  # characters of what was not committed; the command line cuts at less


def without_credentials(submission: Submission) -> Submission:
    """Removes credentials from the changes of its code. Longer changes are refused, and not read."""
    code = submission.spec.code
    if code is None or len(code.diff) > MOST_DIFF:
        return submission
    code = replace(code, diff=credentials.hidden(code.diff))
    return replace(submission, spec=replace(submission.spec, code=code))


def cancel_refusal(
    by: str, owner: str, project: str, rules: Rules, authority: Authority | None = None, verb: str = "cancel"
) -> str | None:
    """Explains why this person may not cancel a job of this owner's, or do what the verb says; None: they may."""
    if why := lapsed(by, rules.access, authority, {Permission.JOBS}):
        return why
    team = team_of(project, owner, rules.teams)
    if by.lower() == owner.lower() or operates(by, owner, team, rules.access, authority):
        return None
    whose = f", an operator of team {team.name}" if team is not None else ""
    return f"Only {owner}{whose} or an admin can {verb} it."


def drill_refusal(spec: JobSpec) -> str:
    """Explains why it cannot be drilled, in one sentence; "" where it can."""
    if spec.kind is JobKind.DEV:
        return "a development VM has no command."
    if spec.checkpoint is None:
        return "it names no location for its checkpoints."
    if spec.nodes > 1:
        return "a drill tries the preemption of one VM, and this job has several."
    return ""


def _operates(address: str, access: Access, teams: Collection[Team], authority: Authority | None) -> bool:
    """Where nobody is given a role, everybody has an operator's."""
    is_granted = authority is not None and authority.is_granted and authority.address == address.lower()
    is_open = not is_granted and not (access.viewers or access.operators or access.admins)
    is_named = role_for(address, access, authority) in (Role.OPERATOR, Role.ADMIN)
    return is_open or is_named or any(address.lower() in team.operators for team in teams)


@dataclass(frozen=True, slots=True)
class Overrides:
    """Overrides of the preset's recipe by this job; None leaves a value."""

    zones: tuple[str, ...] | None = None
    buy: str | None = None  # see model/buying.py
    flex_wait: timedelta | None = None  # of a flex-start request
    machine_type: str | None = None
    disk_gib: int | None = None
    max_run: timedelta | None = None
    on_demand_fallback: bool | None = None
    image: str | None = None  # to boot from
    notice: str | None = None  # a key of `NOTICES`


@dataclass(frozen=True, slots=True)
class Submission:
    """A job to submit. Without a project it is the one that is watched, where there is only one."""

    spec: JobSpec
    overrides: Overrides = field(default_factory=Overrides)


@dataclass(frozen=True, slots=True)
class JobRefusal:
    """`where` is the part of what was asked; `message` is one sentence with what to change."""

    where: str
    message: str


def shown(text: str) -> str:
    """A text in a sentence: short, in quotes, and hidden where it may be a credential."""
    return "What was given" if credentials.in_text(text) else repr(text if len(text) <= 80 else text[:77] + "...")


OVERRIDES = (
    "zones",
    "buy",
    "flex_wait_hours",
    "machine_type",
    "disk_gib",
    "max_run_hours",
    "on_demand_fallback",
    "image",
    "notice",
)
SHORTEST_RUN = timedelta(minutes=10)
LONGEST_RUN = timedelta(days=120)  # Google's
SMALLEST_DISK, LARGEST_DISK = 10, 65536  # GiB, Google's

_ZONE = re.compile(r"[a-z]+(?:-[a-z]+)+[0-9]+-(?:[a-z]|ai[0-9]+[a-z])")
_MACHINE_TYPE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_BOOT_IMAGE = re.compile(r"(?:projects/[a-z0-9.:-]+/)?global/images/(?:family/)?[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")


def with_overrides(recipe: Recipe, wanted: Overrides, machine: Shape | None = None) -> Recipe:
    """`machine` is what the wanted machine type is made of, where another one is wanted and it is known."""
    changed = recipe
    if wanted.zones is not None:
        changed = replace(changed, zones=tuple(dict.fromkeys(wanted.zones)))
    if wanted.buy is not None and not buying.problem(wanted.buy):
        changed = buying.bought(changed, wanted.buy)
    if wanted.flex_wait is not None:
        changed = replace(changed, wait=wanted.flex_wait)
    if wanted.machine_type is not None:
        changed = replace(changed, machine_type=wanted.machine_type)
        if machine is not None and not recipe.attaches_gpus:
            changed = replace(changed, gpu_count=machine.gpu_count)
    if wanted.disk_gib is not None:
        changed = replace(changed, disk_gib=wanted.disk_gib)
    if wanted.max_run is not None:
        changed = replace(changed, max_run=wanted.max_run)
    if wanted.on_demand_fallback is not None:
        changed = replace(changed, falls_back_to_on_demand=wanted.on_demand_fallback)
    if wanted.image is not None:
        changed = replace(changed, image=wanted.image)
    if wanted.notice is not None:
        changed = replace(changed, notice=NOTICES[wanted.notice])
    return changed


def override_problems(recipe: Recipe, wanted: Overrides, machine: Shape | None) -> Iterator[JobRefusal]:
    """Lists overrides that are impossible. `machine` is the shape of the wanted machine type; None: it is not known."""
    if wanted.zones is not None:
        if not wanted.zones:
            yield JobRefusal("overrides.zones", "It is empty: name a zone, or leave it out for the preset's.")
        for zone in wanted.zones:
            if not _ZONE.fullmatch(zone):
                yield JobRefusal("overrides.zones", f"{shown(zone)} is no zone: write one such as us-central1-a.")
            elif (region := _region_of(recipe.subnetwork)) and not zone.startswith(f"{region}-"):
                message = f"{zone} is not in {region}, where this preset's subnetwork is: name a zone of that region."
                yield JobRefusal("overrides.zones", message)
    if wanted.machine_type is not None and wanted.machine_type != recipe.machine_type:
        yield from _of_machine(recipe, wanted.machine_type, machine)
    if wanted.disk_gib is not None and not SMALLEST_DISK <= wanted.disk_gib <= LARGEST_DISK:
        message = f"A boot disk has {SMALLEST_DISK} to {LARGEST_DISK} GiB: choose a size between them."
        yield JobRefusal("overrides.disk_gib", message)
    if wanted.max_run is not None and not SHORTEST_RUN <= wanted.max_run <= LONGEST_RUN:
        message = "A VM may run from 10 minutes to 120 days (Google's limit): choose a time between them."
        yield JobRefusal("overrides.max_run_hours", message)
    if wanted.buy is not None and (why := buying.problem(wanted.buy)):
        yield JobRefusal("overrides.buy", f"{shown(wanted.buy)} {why}")
    if wanted.flex_wait is not None and (why := buying.wait_problem(wanted.flex_wait)):
        yield JobRefusal("overrides.flex_wait_hours", why)
    if wanted.image is not None and not _BOOT_IMAGE.fullmatch(wanted.image):
        message = f"{shown(wanted.image)} is nothing to boot from: write projects/P/global/images/family/F"
        yield JobRefusal("overrides.image", f"{message}; a container's image stands outside of overrides.")


def unsold(recipe: Recipe, wanted: Overrides) -> Iterator[JobRefusal]:
    """Lists what Google would not sell, in the recipe that these overrides made."""
    message = buying.not_sold(recipe.machine_type, buying.models_of(recipe))
    if not message:
        return
    if wanted.machine_type is not None:
        yield JobRefusal("overrides.machine_type", message)
    elif wanted.buy is not None and not buying.problem(wanted.buy):
        yield JobRefusal("overrides.buy", message)
    elif wanted.on_demand_fallback:
        yield JobRefusal("overrides.on_demand_fallback", message)
    else:
        yield JobRefusal("preset", message)


def flex_problems(spec: JobSpec, recipe: Recipe, wanted: Overrides) -> Iterator[JobRefusal]:
    """Lists what flex-start VMs cannot do, of a job that may get one: "About Flex-start VMs", section "Limitations"."""
    if buying.FLEX not in buying.models_of(recipe):
        return
    where = "preset" if wanted.buy is None else "overrides.buy"
    if spec.checkpoint is not None and spec.checkpoint.is_on_disk:
        message = (
            "Google deletes a flex-start VM at its end, and its disk with it, where this job's checkpoints are: save "
            "them in a bucket, or buy it as spot or demand."
        )
        yield JobRefusal(where, message)
    if wanted.max_run is not None and wanted.max_run > LONGEST_FLEX_RUN and not recipe.buys_cheapest:
        message = (
            f"A flex-start VM runs for {span_text(LONGEST_FLEX_RUN)} at most (Google's limit): choose a shorter time. "
            "Before it ends, the job's next VM is asked for."
        )
        yield JobRefusal("overrides.max_run_hours", message)


def _of_machine(recipe: Recipe, name: str, machine: Shape | None) -> Iterator[JobRefusal]:
    where = "overrides.machine_type"
    if not _MACHINE_TYPE.fullmatch(name) or machine is None:
        yield JobRefusal(where, f"What {shown(name)} is made of is not known: name a machine type of Google's.")
    elif recipe.attaches_gpus and machine.family != "n1":
        message = f"A {recipe.gpu_type} can be attached to N1 machine types alone: name one, such as n1-standard-8."
        yield JobRefusal(where, message)
    elif not recipe.attaches_gpus and recipe.gpu_type and machine.gpu_type != recipe.gpu_type:
        has = f"has {machine.gpu_type}" if machine.gpu_type else "has no GPU"
        message = f"{name} {has}, and this preset's VMs have {recipe.gpu_type}"
        yield JobRefusal(where, f"{message}: name a machine type with it, or another preset.")


def _region_of(subnetwork: str) -> str:
    """Returns the region of a subnetwork which names one: VMs of other regions cannot be in it."""
    match = re.search(r"regions/([^/]+)/", subnetwork)
    return match[1] if match else ""


def used(recipe: Recipe, wanted: Overrides) -> Iterator[str]:
    """The overrides that change something: what the preset has anyway may be said by anybody."""
    pairs: tuple[tuple[str, object, object], ...] = (
        ("zones", wanted.zones, recipe.zones),
        ("buy", wanted.buy, recipe.buy),
        ("flex_wait_hours", wanted.flex_wait, recipe.wait),
        ("machine_type", wanted.machine_type, recipe.machine_type),
        ("disk_gib", wanted.disk_gib, recipe.disk_gib),
        ("max_run_hours", wanted.max_run, recipe.max_run),
        ("on_demand_fallback", wanted.on_demand_fallback, recipe.falls_back_to_on_demand),
        ("image", wanted.image, recipe.image),
        ("notice", None if wanted.notice is None else NOTICES[wanted.notice], recipe.notice),
    )
    for name, given, usual in pairs:
        if given is not None and given != usual:
            yield name
