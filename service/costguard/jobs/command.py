"""What is wrong with a job's command, its container, and how it resumes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise

from costguard.jobs import image
from costguard.jobs.asked import Refusal, shown
from costguard.model.checkpoint import Framework, names_a_file
from costguard.model.job import CheckpointPlan, JobSpec
from costguard.model.log_pattern import LogPattern

_MOUNT = re.compile(r"/[^:\x00]*:/[^:\x00]*(?::[a-zA-Z,]{1,20})?")
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
_PLACEHOLDERS = frozenset({"checkpoint", "location", "step"})
_TAKE_A_FOLDER = frozenset({Framework.DEEPSPEED, Framework.MEGATRON})  # and find the newest in it by a file of theirs
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash"})
_EMPTIED = ("/tmp", "/run", "/dev", "/proc", "/sys")  # noqa: S108 -- where nothing may be kept


def problems(spec: JobSpec) -> Iterator[Refusal]:
    yield from _of_command(spec)
    yield from _of_container(spec)
    if spec.checkpoint is not None:
        yield from _of_location(spec, spec.checkpoint)
        if spec.checkpoint.resume:
            yield from _of_resume(spec.command, spec.checkpoint)


def _of_command(spec: JobSpec) -> Iterator[Refusal]:
    if not spec.command and not spec.image:
        message = "There is neither a command nor an image: say what to run, such as python train.py."
        yield Refusal("command", message)
    if spec.command and not spec.command[0].strip():
        yield Refusal("command", "Its first word is empty: begin with the program to run.")
    if any("\x00" in word for word in spec.command):
        yield Refusal("command", "It holds a NUL character, which no program can be given: take it out.")
    if not spec.step_pattern:
        return
    try:
        groups = LogPattern(spec.step_pattern).groups
    except ValueError as wrong:
        yield Refusal("step_pattern", f"It is no regular expression that can be used ({wrong}): write step (\\d+).")
    else:
        if not groups:
            yield Refusal("step_pattern", "It has no group: put the step into one, as in step (\\d+).")


def _of_container(spec: JobSpec) -> Iterator[Refusal]:
    if spec.image:
        try:
            image.parse(spec.image)
        except ValueError as wrong:
            message = f"{shown(spec.image)} is no reference of an image, since {wrong}: write one such as"
            yield Refusal("image", f"{message} europe-docker.pkg.dev/project/repository/train:v3.")
    elif spec.pull:
        yield Refusal("pull", "There is no image whose tag could be asked for: leave it out, or name an image.")
    if spec.mounts and not spec.image:
        yield Refusal("mounts", "Nothing can be mounted without an image: leave it out, or name an image.")
    for mount in spec.mounts:
        if not _MOUNT.fullmatch(mount):
            yield Refusal(
                "mounts", f"{shown(mount)} is no mount: write /on/the/vm:/in/the/image, and :ro to protect it."
            )
    if spec.workdir and not (spec.workdir.startswith("/") and spec.workdir.isprintable()):
        yield Refusal("workdir", f"{shown(spec.workdir)} is no whole path: begin it with a slash.")


def _of_location(spec: JobSpec, plan: CheckpointPlan) -> Iterator[Refusal]:
    where = "checkpoint.location"
    if not plan.location:
        message = "It does not say where the checkpoints lie: name a place such as gs://bucket/run-1"
        yield Refusal(where, f"{message}, or leave out how to resume.")
    elif not plan.is_on_disk and "://" not in plan.location:
        message = f"{shown(plan.location)} is no location: write gs://bucket/run-1, s3://bucket/run-1"
        yield Refusal(where, f"{message}, or a whole path on the VM's disk.")
    if names_a_file(plan.location) and (plan.look_for.pattern or plan.look_for.marker):
        message = f"{shown(plan.location)} names one file, so a pattern or a marker means nothing"
        yield Refusal(where, f"{message}: leave them out, or name the folder that holds the files.")
    if not plan.is_on_disk:
        return
    if not plan.location.isprintable() or "/../" in f"{plan.location}/":
        yield Refusal(where, f"{shown(plan.location)} is no plain path: write it out.")
    if spec.image and not any(_holds(mount, plan.location) for mount in spec.mounts):
        message = f"{shown(plan.location)} would lie in the container and go with it: mount a folder of the VM there"
        yield Refusal(where, f"{message}, as in mounts = [/var/checkpoints:{plan.location}].")
    if not spec.image and any(_is_below(plan.location, top) for top in _EMPTIED):
        message = f"What lies in {shown(plan.location)} is gone once the VM was stopped"
        yield Refusal(where, f"{message}: name a folder such as /var/checkpoints.")


def _of_resume(words: Sequence[str], plan: CheckpointPlan) -> Iterator[Refusal]:
    where = "checkpoint.resume"
    try:
        shlex.split(plan.resume)
    except ValueError:
        yield Refusal(where, "A quote in it is not closed: close it; it is split as a shell would.")
    names = set(_PLACEHOLDER.findall(plan.resume))
    if unknown := sorted(names - _PLACEHOLDERS):
        yield Refusal(where, f"{{{unknown[0]}}} stands for nothing: use {{checkpoint}}, {{location}} or {{step}}.")
    takes_folder = plan.is_on_disk or plan.look_for.framework in _TAKE_A_FOLDER
    if "checkpoint" not in names and not (takes_folder and "location" in names):
        either = "{checkpoint} or {location}" if takes_folder else "{checkpoint}"
        message = f"It does not say where the checkpoint goes: put {either} into it"
        yield Refusal(where, f"{message}, as in --resume_from {{checkpoint}}.")
    if plan.is_on_disk and "step" in names:
        yield Refusal(where, "Nobody can look at the VM's own disk for a step: leave {step} out.")
    if not words:
        message = "It would take the place of the image's own arguments: write the whole command out, to be added to."
        yield Refusal(where, message)
    elif (script := _script(words)) is not None and not re.search(r"\$[@*0-9{]", script):
        message = 'It is added after the shell\'s script, which does not use it: write "$@" where it belongs'
        yield Refusal(where, f"{message}, and one more word, such as train, after the script.")


def _script(words: Sequence[str]) -> str | None:
    """What `bash -c` runs, with or without words after it; None for any other command."""
    if words[0].rpartition("/")[2] not in _SHELLS:
        return None
    for option, script in pairwise(words):
        if re.fullmatch(r"-[a-z]*c", option):
            return script
    return None


def _holds(mount: str, path: str) -> bool:
    """Whether the folder that this mount puts into the container is, or holds, the path."""
    inside = mount.split(":")[1] if ":" in mount else ""
    return bool(inside) and _is_below(path, inside)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
