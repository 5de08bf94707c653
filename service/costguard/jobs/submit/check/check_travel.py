"""Validates where checkpoints are saved and how they come to their location; also the role and limit of transfers."""

from __future__ import annotations

from collections.abc import Iterator

from costguard.jobs.submit.check.check_data import is_within, other_provider, path_problems
from costguard.jobs.submit.submission import JobRefusal, shown
from costguard.model.job import BEST, CheckpointPlan, JobSpec
from costguard_vm.model.checkpoint import names_a_file

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def travel_problems(spec: JobSpec) -> Iterator[JobRefusal]:
    plan = spec.checkpoint
    if plan is not None and plan.local:
        yield from _of_local(spec, plan)
    elif plan is not None and plan.location and "://" in plan.location and not _is_written_to(spec, plan):
        message = (
            f"Nothing would be saved at {shown(plan.location)}: neither the command nor its environment names it. Give "
            "the folder where the command saves (--local /data/out), and checkpoints in it are uploaded; or"
        )
        yield JobRefusal("checkpoint.local", f"{message} say that the command uploads by itself (--uploads-itself).")
    if plan is not None:
        yield from _of_requests(plan)
        yield from _of_result(spec, plan)
    yield from _of_role(spec)


def _of_requests(plan: CheckpointPlan) -> Iterator[JobRefusal]:
    """Refuses an interval without a way to ask for a save, and a way without an interval."""
    if plan.save_every and not plan.save_on:
        message = "Nothing says how the running command can be asked for a save: add --save-on file where it watches"
        yield JobRefusal(
            "checkpoint.save_on", f"{message} COSTGUARD_SAVE_REQUEST, or --save-on SIGUSR1 where it has a handler."
        )
    if plan.save_on and not plan.save_every:
        message = "Nothing says how often the command is asked for a save: add --save-every auto, or a span"
        yield JobRefusal("checkpoint.save_every", f"{message} such as 20min.")


def _of_result(spec: JobSpec, plan: CheckpointPlan) -> Iterator[JobRefusal]:
    """Refuses a checkpoint as the result that the agent would not know, or could not copy."""
    where = "checkpoint.publish_to"
    if plan.publish and not plan.publish_to:
        message = "Nothing says where the checkpoint is published: add --publish-to gs://bucket/path, or leave"
        yield JobRefusal(where, f"{message} --publish out.")
    if not plan.publish_to:
        return
    if not plan.local:
        message = "The agent publishes what it uploads: give the folder where the command saves (--local /data/out),"
        yield JobRefusal(where, f"{message} or publish what the command writes itself by --output.")
    elif "://" in plan.publish_to and "://" in plan.location and other_provider(plan.publish_to, plan.location):
        message = f"{shown(plan.publish_to)} is not with the provider of {shown(plan.location)}, whose servers copy the"
        yield JobRefusal(where, f"{message} result: name a folder there.")
    if names_a_file(plan.publish_to):
        yield JobRefusal(where, f"{shown(plan.publish_to)} names a file: a checkpoint may have many, so name a folder.")
    if plan.publish == BEST and spec.metric is None:
        message = "Nothing says which checkpoint is the best: name the metric in the output (--metric), or publish the"
        yield JobRefusal("checkpoint.publish", f"{message} latest.")
    if plan.publish == BEST and names_a_file(plan.location):
        message = f"{shown(plan.location)} is one file, which holds the newest checkpoint alone: publish the latest, or"
        yield JobRefusal("checkpoint.publish", f"{message} save to a folder.")


def _is_written_to(spec: JobSpec, plan: CheckpointPlan) -> bool:
    """Says whether the command knows the location: by its words, by a variable, or by how it resumes."""
    if plan.uploads_itself or "{location}" in plan.resume:
        return True
    texts = (*spec.command, *spec.environment.values(), plan.resume)
    place = plan.location.rstrip("/")
    return any(place in text or place.removeprefix("file://") in text for text in texts)


def _of_local(spec: JobSpec, plan: CheckpointPlan) -> Iterator[JobRefusal]:
    where = "checkpoint.local"
    yield from path_problems(where, plan.local)
    if plan.is_on_disk:
        message = (
            f"Nothing is uploaded to {shown(plan.location)}, which is on the VM's disk: leave --local out, or name"
        )
        yield JobRefusal(where, f"{message} a bucket as the location, such as gs://bucket/run-1.")
    if plan.uploads_itself:
        yield JobRefusal(where, "The command uploads by itself, so nothing else may: leave one of the two out.")
    if names_a_file(plan.local) != names_a_file(plan.location):
        message = f"{shown(plan.local)} and {shown(plan.location)} must both name a folder, or both a file"
        yield JobRefusal(where, f"{message}: the location gets what lies at the path.")
    if spec.image and not any(_holds(mount, plan.local) for mount in spec.mounts):
        message = f"{shown(plan.local)} would lie in the container, where it cannot be read: mount a folder of the VM"
        yield JobRefusal(where, f"{message} there, as in --mount /var/out:{plan.local}.")
    for one in spec.inputs:
        if is_within(one.path, plan.local):
            message = f"It holds the input {one.path}, which would be taken for checkpoints: name another folder."
            yield JobRefusal(where, message)


def _of_role(spec: JobSpec) -> Iterator[JobRefusal]:
    if not spec.aws_role:
        return
    if keys := [name for name in _KEYS if name in spec.secrets or name in spec.environment]:
        message = f"{keys[0]} is given too, and AWS would take that: leave the role or the key out."
        yield JobRefusal("aws_role", message)


def _holds(mount: str, path: str) -> bool:
    inside = mount.split(":")[1] if ":" in mount else ""
    return bool(inside) and is_within(path, inside)
