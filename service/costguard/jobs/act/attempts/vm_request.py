"""The request for an attempt's VM, which can be repeated identically from what is stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import cast

from costguard.jobs.act.attempts.boot import metadata_items
from costguard.jobs.decide.checkpoints.disk import saves_on_disk
from costguard.jobs.decide.recovery import resume
from costguard.jobs.submit.check.check_data import is_within
from costguard.ledger.owner import OwnerRules
from costguard.model.attempt import ATTEMPT_LABEL, GROUP_LABEL, Attempt
from costguard.model.buying import RESERVED
from costguard.model.data import StageRules
from costguard.model.generation import GENERATION_LABEL, REQUEST_LABEL
from costguard.model.instance import audience_of, region_of
from costguard.model.job import CheckpointPlan, Job, JobKind, JobSpec, destinations_of, published
from costguard.model.launch import NO_NOTICE, Placement, Recipe, VmRequest, policy_name
from costguard.model.options.job import JOB_OPTIONS
from costguard.model.reported.output import output_folder
from costguard.model.vm_tool import PY_SPY, RCLONE, PinnedTool
from costguard_vm.model.checkpoint import words_of

GUARD_LABEL = "costguard-guard"
JOB_LABEL = "costguard-job"
PRESET_LABEL = "costguard-preset"
NODE_LABEL = "costguard-node"  # the place of a VM among those of its job, from 0; a job of one VM has none
FOLLOWS_LABEL = "costguard-follows"  # the number of the attempt that ran while this VM was made ready
DISK_LABEL = "costguard-disk"  # its disk holds the only copy of what its job saved

_LABEL_VALUE = re.compile(r"[a-z0-9_-]{1,63}")

MakeMetadata = Callable[[Mapping[str, object], str, bool], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class VmMaker:
    """Makes requests for VMs. `guard_id` marks which VMs are this installation's; it is a label's value.

    `metadata` puts the agent, its settings and its token into the form that the boot script expects.
    """

    guard_id: str
    guard_url: str
    guard_ca: str
    token_of: Callable[[str], str]  # an attempt's name -> the token that speaks for it alone
    metadata: MakeMetadata = metadata_items
    owners: OwnerRules = field(default_factory=OwnerRules)
    cancel_grace: timedelta = timedelta(seconds=60)
    heartbeat: timedelta = timedelta(seconds=15)
    quick_crash: timedelta = timedelta(minutes=10)
    logs: str = ""  # where output is stored that has no checkpoints in a bucket next to it
    profiles: bool = False  # whether profiles are taken of jobs that do not say
    stage: StageRules = field(default_factory=StageRules)
    tools: Mapping[str, PinnedTool] = field(default_factory=dict)  # by name: what VMs may fetch from the guard

    def request(self, job: Job, attempt: Attempt) -> VmRequest:
        """The same for the same job and attempt, whenever it is made."""
        plan = job.spec.checkpoint
        return VmRequest(
            name=attempt.name,
            recipe=recipe_of(job, attempt),
            provisioning_model=attempt.provisioning_model,
            max_run=attempt.max_run,
            keeps_disk=plan is not None and plan.is_on_disk,
            labels=self._labels(job, attempt),
            metadata=self._metadata(job, attempt),
            notice=attempt.notice or NO_NOTICE,
            wait=job.recipe.wait_of(attempt.provisioning_model),
            reservation=job.recipe.reservation if attempt.provisioning_model is RESERVED else "",
            placement_policy=policy_name(job.id) if job.spec.placement is Placement.COMPACT else "",
        )

    def is_ours(self, labels: Mapping[str, str], attempt: Attempt) -> bool:
        """Says whether a VM with these labels was made for this attempt, by this installation.

        A VM without the label of a request was launched before that label existed.
        """
        label, value = (GROUP_LABEL, attempt.vm_group) if attempt.vm_group else (ATTEMPT_LABEL, attempt.name)
        named = labels.get(label) == value and labels.get(GUARD_LABEL) == self.guard_id
        return named and labels.get(REQUEST_LABEL, attempt.request_uuid) == attempt.request_uuid

    def _labels(self, job: Job, attempt: Attempt) -> dict[str, str]:
        labels = dict(job.labels)
        owner = label_of(job.spec.owner, self.owners)
        if owner:
            labels[self.owners.label] = owner
        if _LABEL_VALUE.fullmatch(job.spec.preset):
            labels[PRESET_LABEL] = job.spec.preset
        if saves_on_disk(job):
            labels[DISK_LABEL] = "only-copy"
        if job.is_gang and not attempt.vm_group:
            labels[NODE_LABEL] = str(attempt.node)
        if attempt.follows is not None:
            labels[FOLLOWS_LABEL] = str(attempt.follows)
        return {
            **labels,
            GUARD_LABEL: self.guard_id,
            JOB_LABEL: job.id,
            **({GROUP_LABEL: attempt.vm_group} if attempt.vm_group else {ATTEMPT_LABEL: attempt.name}),
            GENERATION_LABEL: str(attempt.generation),
            REQUEST_LABEL: attempt.request_uuid,
        }

    def _metadata(self, job: Job, attempt: Attempt) -> Mapping[str, str]:
        if job.spec.kind is JobKind.DEV:  # nothing is to be run on it
            return {"install-nvidia-driver": "True"} if job.recipe.installs_drivers else {}
        settings = settings_for(
            job,
            attempt,
            () if attempt.follows is not None or job.is_gang else resume.arguments(job, attempt),
            self.guard_url,
            self.guard_ca,
            self.cancel_grace,
            self.heartbeat,
            self.quick_crash,
        )
        if attempt.follows is not None:
            settings["stands_by"] = True
        if job.is_gang:
            least = {"least": str(job.spec.fewest)} if job.spec.is_elastic else {}
            settings["gang"] = {"node": str(attempt.node), "nodes": str(job.spec.nodes), **least}
        if stages := self._stages(job, attempt):
            settings["stages"] = stages
        if folder := output_folder(job.spec, attempt.name, self.logs):
            settings["logs"] = folder.rpartition("/")[0] if attempt.vm_group else folder
        if tool := self.tools.get(RCLONE):
            settings.update(rclone_sha256=tool.sha256, rclone_machine=tool.machine)
        profiles = self.profiles if job.spec.profile is None else job.spec.profile
        if profiles:
            settings["profile"] = True
        if (job.spec.stacks or profiles) and (tool := self.tools.get(PY_SPY)):
            settings.update(py_spy_sha256=tool.sha256, py_spy_machine=tool.machine)
        if attempt.vm_group:
            return self.metadata(self._shared(settings, job), "", job.recipe.installs_drivers)
        return self.metadata(settings, self.token_of(attempt.name), job.recipe.installs_drivers)

    def _stages(self, job: Job, attempt: Attempt) -> dict[str, str]:
        """Returns the folder of stages near this VM for each of its staged inputs, by the input's path."""
        address = self.stage.address_in(region_of(attempt.zone))
        return {one.path: address for one in job.spec.inputs if one.staged and address}

    def _shared(self, settings: Mapping[str, object], job: Job) -> Mapping[str, object]:
        """Returns what all VMs of a group share: each asks the guard for the rest, and proves by Google who it is."""
        gang = {name: value for name, value in cast("dict[str, str]", settings["gang"]).items() if name != "node"}
        claim = {"job": job.id, "audience": audience_of(self.guard_url, job.id)}
        own = {name: value for name, value in settings.items() if name not in ("attempt", "gang")}
        return {**own, "gang": gang, "claim": claim}


def recipe_of(job: Job, attempt: Attempt) -> Recipe:
    """Returns its job's recipe with what was decided for this attempt; as it is where nothing was."""
    if attempt.address is None:
        return job.recipe
    return replace(job.recipe, external_address=attempt.address.is_external)


def settings_for(
    job: Job,
    attempt: Attempt,
    resume_arguments: tuple[str, ...],
    guard_url: str,
    guard_ca: str = "",
    cancel_grace: timedelta = timedelta(seconds=60),
    heartbeat: timedelta = timedelta(seconds=15),
    quick_crash: timedelta = timedelta(minutes=10),
) -> dict[str, object]:
    """The agent's settings, as agent/PROTOCOL.md has them. What is not set is left to the agent's defaults."""
    spec = job.spec
    plan = spec.checkpoint
    command = [*spec.command, *resume_arguments]
    settings: dict[str, object] = {
        "attempt": attempt.name,
        "guard": guard_url,
        "guard_ca": guard_ca,
        "command": command,
        "image": attempt.image or spec.image,
        "gpus": job.recipe.gpu_count,
        "environment": dict(spec.environment),
        "secrets": dict(spec.secrets),
        "code": {"sha256": spec.code.sha256} if spec.code is not None else {},
        "mounts": [*spec.mounts, *data_mounts(spec)],
        **_data(job),
        **{option.agent: option.stored_in(spec) for option in JOB_OPTIONS if option.agent},
        "notice_s": (attempt.notice or NO_NOTICE) / timedelta(seconds=1),
        "cancel_grace_s": cancel_grace / timedelta(seconds=1),
        "heartbeat_s": heartbeat / timedelta(seconds=1),
    }
    if plan is not None and plan.fixed_interval is not None:
        settings["save_every_s"] = plan.fixed_interval / timedelta(seconds=1)
    if plan is not None and plan.is_on_disk:
        settings["resume"] = True
        settings["quick_crash_s"] = quick_crash / timedelta(seconds=1)
        settings["checkpoint"] = _looked_for(plan)
        settings["resume_arguments"] = words_of(plan.resume)
    elif plan is not None and plan.local:
        settings["checkpoint"] = _travelling(plan, attempt, is_gang=job.is_gang)
        settings["resume_arguments"] = words_of(plan.resume)
    elif plan is not None:  # the command writes there itself; a drill looks at it
        settings["stored_checkpoint"] = _looked_for(plan)
        settings["plain_command"] = list(spec.command) if resume_arguments else []
        settings["resume_arguments"] = words_of(plan.resume)
    return {name: value for name, value in settings.items() if value not in (None, "", [], {}, 0)}


def _data(job: Job) -> dict[str, object]:
    spec, plan = job.spec, job.spec.checkpoint
    return {
        "job": job.id if destinations_of(spec) else "",
        "inputs": {one.path: one.source for one in spec.inputs},
        "outputs": {output.destination: output.path for output in spec.outputs},
        "publish": {"to": plan.publish_to, "which": published(spec)} if plan is not None and plan.publish_to else {},
    }


def data_mounts(spec: JobSpec) -> list[str]:
    """Folders of the VM that a container has at the same paths: of inputs and outputs that no mount holds."""
    mounts: list[str] = []
    inside = [mount.split(":")[1] for mount in spec.mounts]
    paths = [*(one.path for one in spec.inputs), *(output.path for output in spec.outputs)] if spec.image else []
    for path in sorted(path.rstrip("/") for path in paths):
        if not any(is_within(path, folder) for folder in inside):
            inside.append(path)
            mounts.append(f"{path}:{path}")
    return mounts


def _looked_for(plan: CheckpointPlan) -> dict[str, str]:
    look_for = plan.look_for
    look = {
        "location": plan.location,
        "framework": look_for.framework or "",
        "pattern": look_for.pattern,
        "marker": look_for.marker,
    }
    return {name: str(value) for name, value in look.items() if value}


def _travelling(plan: CheckpointPlan, attempt: Attempt, *, is_gang: bool) -> dict[str, str]:
    """The guard chooses what is resumed from; the agent downloads it and says where it lies on the VM."""
    is_chosen = attempt.resume_from and attempt.follows is None and not is_gang  # else the guard's word says it
    chosen = {"resume_from": attempt.resume_from} if is_chosen else {}
    if is_chosen and attempt.resume_step is not None:
        chosen["step"] = str(attempt.resume_step)
    return {**_looked_for(plan), "local": plan.local, "keep": str(plan.keep), **chosen}


def label_of(address: str, owners: OwnerRules) -> str:
    """The label value that stands for this address; "" where none that is allowed does."""
    for value, named in sorted(owners.addresses.items()):
        if named == address and _LABEL_VALUE.fullmatch(value):
            return value
    local, _, domain = address.rpartition("@")
    fits = domain == owners.domain and local not in owners.addresses and _LABEL_VALUE.fullmatch(local)
    return local if fits else ""
