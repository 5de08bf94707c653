"""Validates a submitted job: command, container, checkpoints, limits. All problems at once, with what to change."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, pairwise
from urllib.parse import urlsplit

from costguard import credentials
from costguard.jobs.submit.check import check_data
from costguard.jobs.submit.check.check_code import code_problems
from costguard.jobs.submit.check.check_gang import gang_problems
from costguard.jobs.submit.check.check_travel import travel_problems
from costguard.jobs.submit.check.options import free_texts, option_problems, unused_by_dev
from costguard.jobs.submit.submission import SHORTEST_RUN, JobRefusal, drill_refusal, shown
from costguard.model.duration import span_text
from costguard.model.job import CheckpointPlan, JobKind, JobSpec
from costguard.model.moments import utc_text
from costguard_vm.model.checkpoint import Framework, names_a_file

_PART = re.compile(r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HOST = re.compile(r"(?:(?!-)[A-Za-z0-9-]{1,63}(?<!-)\.)*(?!-)[A-Za-z0-9-]{1,63}(?<!-)(?::[0-9]{1,5})?")
_LONGEST = 255 + 129 + 72  # the most that name, tag and digest may have; Docker counts the name by itself


@dataclass(frozen=True, slots=True)
class ImageReference:
    """`registry` is empty for Docker Hub's; without tag and digest it means `latest`."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""


def parse_image(text: str) -> ImageReference:
    """`[registry[:port]/]repository[:tag][@sha256:...]`. Raises ValueError with what is wrong."""
    if len(text) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST} characters")
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise ValueError("a digest is written @sha256: and 64 hexadecimal digits")
    head, slash, last = rest.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise ValueError("a tag has 1 to 128 letters, digits, dots, hyphens or underscores")
    name = f"{head}{slash}{last}"
    first, slash, path = name.partition("/")
    if not slash or not _is_host(first):
        first, path = "", name
    elif not _HOST.fullmatch(first):
        raise ValueError("its registry is no host's name")
    for part in path.split("/"):
        if not _PART.fullmatch(part):
            raise ValueError(
                "its repository has small letters and digits, with single dots or underscores, or hyphens, between them"
            )
    return ImageReference(first, path, tag, digest)


def _is_host(text: str) -> bool:
    """Docker's own rule: `library/python` is a repository, `localhost/python` and `ghcr.io/python` name registries."""
    return "." in text or ":" in text or text == "localhost" or text != text.lower()


_MOUNT = re.compile(r"/[^:\x00]*:/[^:\x00]*(?::[a-zA-Z,]{1,20})?")
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
_PLACEHOLDERS = frozenset({"checkpoint", "location", "step"})
_TAKE_A_FOLDER = frozenset({Framework.DEEPSPEED, Framework.MEGATRON})  # and find the newest in it by a file of theirs
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash"})
_EMPTIED = ("/tmp", "/run", "/dev", "/proc", "/sys")  # noqa: S108 -- where nothing may be kept


def command_problems(spec: JobSpec) -> Iterator[JobRefusal]:
    yield from _of_command(spec)
    yield from _of_container(spec)
    yield from code_problems(spec)
    if spec.checkpoint is not None:
        yield from _of_location(spec, spec.checkpoint)
        if spec.checkpoint.resume:
            yield from _of_resume(spec.command, spec.checkpoint)


def _of_command(spec: JobSpec) -> Iterator[JobRefusal]:
    if not spec.command and not spec.image:
        message = "There is neither a command nor an image: say what to run, such as python train.py."
        yield JobRefusal("command", message)
    if spec.command and not spec.command[0].strip():
        yield JobRefusal("command", "Its first word is empty: begin with the program to run.")
    if any("\x00" in word for word in spec.command):
        yield JobRefusal("command", "It holds a NUL character, which no program can be given: take it out.")


def _of_container(spec: JobSpec) -> Iterator[JobRefusal]:
    if spec.image:
        try:
            parse_image(spec.image)
        except ValueError as wrong:
            message = f"{shown(spec.image)} is no reference of an image, since {wrong}: write one such as"
            yield JobRefusal("image", f"{message} europe-docker.pkg.dev/project/repository/train:v3.")
    elif spec.pull:
        yield JobRefusal("pull", "There is no image whose tag could be asked for: leave it out, or name an image.")
    if spec.mounts and not spec.image:
        yield JobRefusal("mounts", "Nothing can be mounted without an image: leave it out, or name an image.")
    for mount in spec.mounts:
        if not _MOUNT.fullmatch(mount):
            yield JobRefusal(
                "mounts", f"{shown(mount)} is no mount: write /on/the/vm:/in/the/image, and :ro to protect it."
            )


def _of_location(spec: JobSpec, plan: CheckpointPlan) -> Iterator[JobRefusal]:
    where = "checkpoint.location"
    if not plan.location:
        message = "It does not say where the checkpoints lie: name a place such as gs://bucket/run-1"
        yield JobRefusal(where, f"{message}, or leave out how to resume.")
    elif not plan.is_on_disk and "://" not in plan.location:
        message = f"{shown(plan.location)} is no location: write gs://bucket/run-1, s3://bucket/run-1"
        yield JobRefusal(where, f"{message}, or a whole path on the VM's disk.")
    if names_a_file(plan.location) and (plan.look_for.pattern or plan.look_for.marker):
        message = f"{shown(plan.location)} names one file, so a pattern or a marker means nothing"
        yield JobRefusal(where, f"{message}: leave them out, or name the folder that holds the files.")
    if not plan.is_on_disk:
        return
    if not plan.location.isprintable() or "/../" in f"{plan.location}/":
        yield JobRefusal(where, f"{shown(plan.location)} is no plain path: write it out.")
    if spec.image and not any(_holds(mount, plan.location) for mount in spec.mounts):
        message = f"{shown(plan.location)} would lie in the container and go with it: mount a folder of the VM there"
        yield JobRefusal(where, f"{message}, as in mounts = [/var/checkpoints:{plan.location}].")
    if not spec.image and any(_is_below(plan.location, top) for top in _EMPTIED):
        message = f"What lies in {shown(plan.location)} is gone once the VM was stopped"
        yield JobRefusal(where, f"{message}: name a folder such as /var/checkpoints.")


def _of_resume(words: Sequence[str], plan: CheckpointPlan) -> Iterator[JobRefusal]:
    where = "checkpoint.resume"
    try:
        shlex.split(plan.resume)
    except ValueError:
        yield JobRefusal(where, "A quote in it is not closed: close it; it is split as a shell would.")
    names = set(_PLACEHOLDER.findall(plan.resume))
    if unknown := sorted(names - _PLACEHOLDERS):
        yield JobRefusal(where, f"{{{unknown[0]}}} stands for nothing: use {{checkpoint}}, {{location}} or {{step}}.")
    takes_folder = plan.is_on_disk or plan.look_for.framework in _TAKE_A_FOLDER
    if "checkpoint" not in names and not (takes_folder and "location" in names):
        either = "{checkpoint} or {location}" if takes_folder else "{checkpoint}"
        message = f"It does not say where the checkpoint goes: put {either} into it"
        yield JobRefusal(where, f"{message}, as in --resume_from {{checkpoint}}.")
    if plan.is_on_disk and "step" in names:
        yield JobRefusal(where, "Nobody can look at the VM's own disk for a step: leave {step} out.")
    if not words:
        message = "It would take the place of the image's own arguments: write the whole command out, to be added to."
        yield JobRefusal(where, message)
    elif (script := _script(words)) is not None and not re.search(r"\$[@*0-9{]", script):
        message = 'It is added after the shell\'s script, which does not use it: write "$@" where it belongs'
        yield JobRefusal(where, f"{message}, and one more word, such as train, after the script.")


def _script(words: Sequence[str]) -> str | None:
    """Returns the script of `bash -c`, with or without words after it; None for any other command."""
    if words[0].rpartition("/")[2] not in _SHELLS:
        return None
    for option, script in pairwise(words):
        if re.fullmatch(r"-[a-z]*c", option):
            return script
    return None


def _holds(mount: str, path: str) -> bool:
    """Says whether the folder that this mount puts into the container is, or holds, the path."""
    inside = mount.split(":")[1] if ":" in mount else ""
    return bool(inside) and _is_below(path, inside)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


LONGEST_NAME = 80
LONGEST_EXPECTED = timedelta(days=365)
MOST_REFUSALS = 50  # of one job: more would help no one, and each is a sentence
MOST_BYTES = 200 << 10  # Google allows 256 KiB for a value of a VM's metadata; the guard's own settings need their part

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"[^\s@<>,;]{{1,64}}@(?=.{{4,253}}$)(?:{_LABEL}\.)+[A-Za-z]{{2,63}}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_OURS = "COSTGUARD_"
_NAMED_PROJECTS = 10  # in a sentence
_SECRET = re.compile(r"projects/[a-z0-9.:-]+/secrets/[A-Za-z0-9_-]{1,255}(?:/versions/[A-Za-z0-9_-]{1,63})?")
_USE_SECRETS = "give it by reference, secrets = {NAME: projects/P/secrets/S}, which the VM reads itself"


def problems(spec: JobSpec, guard_url: str, now: datetime) -> list[JobRefusal]:
    """Lists the problems of a job by itself, up to a number. No credential that it holds is in any sentence.

    A job that is too large is refused for that alone: looking for credentials in megabytes takes seconds of a core.
    """
    if too_large := size_problem(spec):
        return [too_large]
    return list(islice(_all(spec, guard_url, now), MOST_REFUSALS))


def size_problem(spec: JobSpec) -> JobRefusal | None:
    """Told from its length alone, before anything reads what it says."""
    if (size := _size(spec)) <= MOST_BYTES:
        return None
    message = f"With the rest it comes to {size >> 10} KiB, and a VM's metadata have room for {MOST_BYTES >> 10}"
    return JobRefusal("command", f"{message}: put files into the image or a bucket.")


def watched(project: str, projects: Collection[str]) -> str:
    """The project that is meant. Raises ValueError with what to change."""
    if project in projects or (not project and len(projects) == 1):
        return project or next(iter(projects))
    names = ", ".join(sorted(projects)[:_NAMED_PROJECTS])
    if len(projects) > _NAMED_PROJECTS:
        names += f" or {len(projects) - _NAMED_PROJECTS} more that `costguard projects` lists"
    if not projects:
        raise ValueError("No project is watched yet: wait for the first search, or add one under [watch] projects.")
    if not project:
        raise ValueError(f"Several projects are watched: name one of {names}.")
    raise ValueError(f"The project {shown(project)} is not watched: name one of {names}, or add it under [watch].")


def is_out_of_reach(location: str, guard_url: str) -> bool:
    """A folder of the guard's own machine, where VMs are on others: they could not write there, and nobody is to
    list it by asking for a job."""
    is_here = urlsplit(guard_url).hostname in ("127.0.0.1", "localhost", "::1")
    return location.lower().startswith("file:") and not is_here


def _all(spec: JobSpec, guard_url: str, now: datetime) -> Iterator[JobRefusal]:
    yield from _of_people(spec)
    if spec.kind is JobKind.DEV:
        yield from unused_by_dev(spec)
    else:
        yield from command_problems(spec)
        if not guard_url:
            message = "Its VM could not reach this guard: set guard_url under [jobs] to an address that VMs can open."
            yield JobRefusal("guard_url", message)
    if spec.checkpoint is not None and is_out_of_reach(spec.checkpoint.location, guard_url):
        message = "VMs cannot write to a folder of the guard's machine: use gs:// or s3://, or a path on the VM's disk."
        yield JobRefusal("checkpoint.location", message)
    if spec.kind is not JobKind.DEV:
        yield from check_data.data_problems(spec, guard_url)
        yield from travel_problems(spec)
    yield from gang_problems(spec)
    if spec.drill and (why := drill_refusal(spec)):
        yield JobRefusal("drill", f"There is nothing to drill: {why}")
    if spec.stop_when_flat and spec.checkpoint is None and spec.kind is not JobKind.DEV:
        message = "A job that is finished early leaves its newest checkpoint: name the location of checkpoints."
        yield JobRefusal("stop_when_flat", message)
    yield from option_problems(spec)
    yield from _of_variables(spec)
    yield from _of_credentials(spec)
    yield from _of_limits(spec, now)


def _of_people(spec: JobSpec) -> Iterator[JobRefusal]:
    if not _ADDRESS.fullmatch(spec.owner):
        given = f"{shown(spec.owner)} is no mail address" if spec.owner else "Nobody is named as its owner"
        yield JobRefusal("owner", f"{given}: give the address of who answers for it, such as ana@example.com.")
    if len(spec.name) > LONGEST_NAME or not spec.name.isprintable() or spec.name != spec.name.strip():
        message = f"Use at most {LONGEST_NAME} printable characters, with no line break and no space at either end."
        yield JobRefusal("name", message)


def _of_variables(spec: JobSpec) -> Iterator[JobRefusal]:
    for where, names in (("environment", spec.environment), ("secrets", spec.secrets)):
        for name in names:
            if not _VARIABLE.fullmatch(name):
                message = (
                    f"{shown(name)} is no name of a variable: use letters, digits and underscores, no digit first."
                )
                yield JobRefusal(where, message)
            elif name.startswith(_OURS):
                yield JobRefusal(where, f"{name}: names that begin with {_OURS} are the guard's own: choose another.")
    if any("\x00" in value for value in spec.environment.values()):
        yield JobRefusal("environment", "A value holds a NUL character, which no program can be given: take it out.")
    for name, reference in spec.secrets.items():
        if not _SECRET.fullmatch(reference):
            message = "This must be a reference into Secret Manager, never the secret itself: projects/P/secrets/S"
            yield JobRefusal(_named("secrets", name), f"{message}, or projects/P/secrets/S/versions/V.")
        if name in spec.environment:
            message = "The environment has this name as well: leave it out of one of them."
            yield JobRefusal(_named("secrets", name), message)


def _of_credentials(spec: JobSpec) -> Iterator[JobRefusal]:
    if kind := credentials.in_command(spec.command):
        yield JobRefusal("command", f"It holds what looks like {kind}, and many can read it: {_USE_SECRETS}.")
    for name, kind in credentials.in_environment(spec.environment):
        message = f"This looks like {kind}, and many can read it: {_USE_SECRETS}."
        yield JobRefusal(_named("environment", name), message)
    for where, text in free_texts(spec).items():
        if kind := credentials.in_text(text):
            yield JobRefusal(where, f"It holds what looks like {kind}, and many can read it: take it out.")


def _of_limits(spec: JobSpec, now: datetime) -> Iterator[JobRefusal]:
    if spec.deadline is not None and spec.deadline <= now:
        yield JobRefusal("deadline", f"{utc_text(spec.deadline)} has passed: give a later one, or none.")
    if spec.ceiling is not None and spec.ceiling.nanos <= 0:
        yield JobRefusal("ceiling", "It must be more than nothing: give an amount of dollars, or none.")
    least_time, most_time = SHORTEST_RUN * spec.nodes, LONGEST_EXPECTED * spec.nodes
    if spec.max_vm_time is not None and not least_time <= spec.max_vm_time <= most_time:
        share = f" for each of its {spec.nodes} VMs" if spec.nodes > 1 else ""
        message = f"This must be at least {span_text(SHORTEST_RUN)}{share}, and at most a year{share}."
        yield JobRefusal("max_vm_hours", message)
    if spec.work is not None and not timedelta() < spec.work <= LONGEST_EXPECTED:
        message = "This must be more than nothing and at most a year: say how long it runs without interruptions."
        yield JobRefusal("work_hours", message)


def _named(where: str, name: str) -> str:
    """The variable it is about, unless its name may be a secret that went astray."""
    return f"{where}.{name}" if _VARIABLE.fullmatch(name) and not credentials.in_text(name) else where


def _size(spec: JobSpec) -> int:
    """Returns its size as JSON, as which it goes into the metadata."""
    plan = spec.checkpoint
    texts = [
        list(spec.command),
        dict(spec.environment),
        dict(spec.secrets),
        list(spec.mounts),
        spec.workdir,
        spec.setup,
        spec.step_pattern,
        spec.image,
        [[one.source, one.path] for one in spec.inputs],
        [[one.path, one.destination] for one in spec.outputs],
        # A later run on the same disk has its own command in addition to the first.
        [*spec.command, plan.resume, plan.location, plan.publish_to] if plan is not None else [],
    ]
    return len(json.dumps(texts))
