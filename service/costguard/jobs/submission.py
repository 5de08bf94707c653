"""What is wrong with a job that somebody asks for. Everything is said at once, each with what to change."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from costguard.jobs import command, credentials
from costguard.jobs.asked import Refusal, shown
from costguard.model.job import JobKind, JobSpec

LONGEST_NAME = 80
LONGEST_EXPECTED = timedelta(days=365)
MOST_BYTES = 200 << 10  # Google allows 256 KiB for a value of a VM's metadata; the guard's own settings need their part

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"[^\s@<>,;]{{1,64}}@(?=.{{4,253}}$)(?:{_LABEL}\.)+[A-Za-z]{{2,63}}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_OURS = "COSTGUARD_"
_SECRET = re.compile(r"projects/[a-z0-9.:-]+/secrets/[A-Za-z0-9_-]{1,255}(?:/versions/[A-Za-z0-9_-]{1,63})?")
_USE_SECRETS = "give it by reference, secrets = {NAME: projects/P/secrets/S}, which the VM reads itself"


def problems(spec: JobSpec, guard_url: str, now: datetime) -> list[Refusal]:
    """All that can be said of it by itself. No credential that it holds is in any sentence."""
    return list(_all(spec, guard_url, now))


def watched(project: str, projects: Collection[str]) -> str:
    """The project that is meant. Raises ValueError with what to change."""
    if project in projects or (not project and len(projects) == 1):
        return project or next(iter(projects))
    known = ", ".join(sorted(projects))
    if not project:
        raise ValueError(f"Several projects are watched: name one of {known}.")
    raise ValueError(f"The project {shown(project)} is not watched: name one of {known}, or add it under [watch].")


def is_out_of_reach(location: str, guard_url: str) -> bool:
    """A folder of the guard's own machine, where VMs are on others: they could not write there, and nobody is to
    list it by asking for a job."""
    is_here = urlsplit(guard_url).hostname in ("127.0.0.1", "localhost", "::1")
    return location.lower().startswith("file:") and not is_here


def _all(spec: JobSpec, guard_url: str, now: datetime) -> Iterator[Refusal]:
    yield from _of_people(spec)
    if spec.kind is JobKind.DEV:
        yield from _of_dev(spec)
    else:
        yield from command.problems(spec)
        if not guard_url:
            message = "Its VM could not reach this guard: set guard_url under [jobs] to an address that VMs can open."
            yield Refusal("guard_url", message)
    if spec.checkpoint is not None and is_out_of_reach(spec.checkpoint.location, guard_url):
        message = "VMs cannot write to a folder of the guard's machine: use gs:// or s3://, or a path on the VM's disk."
        yield Refusal("checkpoint.location", message)
    yield from _of_variables(spec)
    yield from _of_credentials(spec)
    yield from _of_limits(spec, now)
    if (size := _size(spec)) > MOST_BYTES:
        message = f"With the rest it comes to {size >> 10} KiB, and a VM's metadata have room for {MOST_BYTES >> 10}"
        yield Refusal("command", f"{message}: put files into the image or a bucket.")


def _of_people(spec: JobSpec) -> Iterator[Refusal]:
    if not _ADDRESS.fullmatch(spec.owner):
        given = f"{shown(spec.owner)} is no mail address" if spec.owner else "Nobody is named as its owner"
        yield Refusal("owner", f"{given}: give the address of who answers for it, such as ana@example.com.")
    if len(spec.name) > LONGEST_NAME or not spec.name.isprintable() or spec.name != spec.name.strip():
        message = f"Use at most {LONGEST_NAME} printable characters, with no line break and no space at either end."
        yield Refusal("name", message)


def _of_dev(spec: JobSpec) -> Iterator[Refusal]:
    unused = {
        "command": spec.command,
        "image": spec.image,
        "checkpoint": spec.checkpoint,
        "environment": spec.environment,
        "secrets": spec.secrets,
        "workdir": spec.workdir,
        "mounts": spec.mounts,
        "step_pattern": spec.step_pattern,
        "expected_hours": spec.expected,
    }
    for where, given in unused.items():
        if given:
            hint = " (what it boots from is overrides.image)" if where == "image" else ""
            message = f"A development VM runs nothing by itself, so this means nothing{hint}: leave it out."
            yield Refusal(where, message)


def _of_variables(spec: JobSpec) -> Iterator[Refusal]:
    for where, names in (("environment", spec.environment), ("secrets", spec.secrets)):
        for name in names:
            if not _VARIABLE.fullmatch(name):
                message = (
                    f"{shown(name)} is no name of a variable: use letters, digits and underscores, no digit first."
                )
                yield Refusal(where, message)
            elif name.startswith(_OURS):
                yield Refusal(where, f"{name}: names that begin with {_OURS} are the guard's own: choose another.")
    if any("\x00" in value for value in spec.environment.values()):
        yield Refusal("environment", "A value holds a NUL character, which no program can be given: take it out.")
    for name, reference in spec.secrets.items():
        if not _SECRET.fullmatch(reference):
            message = "This must be a reference into Secret Manager, never the secret itself: projects/P/secrets/S"
            yield Refusal(_named("secrets", name), f"{message}, or projects/P/secrets/S/versions/V.")
        if name in spec.environment:
            message = "The environment has this name as well: leave it out of one of them."
            yield Refusal(_named("secrets", name), message)


def _of_credentials(spec: JobSpec) -> Iterator[Refusal]:
    if found := credentials.in_command(spec.command):
        yield Refusal("command", f"It holds what looks like {found}, and many can read it: {_USE_SECRETS}.")
    for name, found in credentials.in_environment(spec.environment):
        message = f"This looks like {found}, and many can read it: {_USE_SECRETS}."
        yield Refusal(_named("environment", name), message)
    texts = {
        "name": spec.name,
        "image": spec.image,
        "workdir": spec.workdir,
        "mounts": "\n".join(spec.mounts),
        "checkpoint.location": spec.checkpoint.location if spec.checkpoint else "",
        "checkpoint.resume": spec.checkpoint.resume if spec.checkpoint else "",
        "step_pattern": spec.step_pattern,
    }
    for where, text in texts.items():
        if found := credentials.in_text(text):
            yield Refusal(where, f"It holds what looks like {found}, and many can read it: take it out.")


def _of_limits(spec: JobSpec, now: datetime) -> Iterator[Refusal]:
    if spec.deadline is not None and spec.deadline <= now:
        yield Refusal("deadline", f"{spec.deadline:%Y-%m-%d %H:%M} UTC has passed: give a later one, or none.")
    if spec.ceiling is not None and spec.ceiling.nanos <= 0:
        yield Refusal("ceiling", "It must be more than nothing: give an amount of dollars, or none.")
    if spec.expected is not None and not timedelta() < spec.expected <= LONGEST_EXPECTED:
        message = "This must be more than nothing and at most a year: say how long it runs without interruptions."
        yield Refusal("expected_hours", message)


def _named(where: str, name: str) -> str:
    """The variable it is about, unless its name may be a secret that went astray."""
    return f"{where}.{name}" if _VARIABLE.fullmatch(name) and not credentials.in_text(name) else where


def _size(spec: JobSpec) -> int:
    """As JSON, as which it goes into the metadata."""
    plan = spec.checkpoint
    told = [
        list(spec.command),
        dict(spec.environment),
        dict(spec.secrets),
        list(spec.mounts),
        spec.workdir,
        spec.step_pattern,
        spec.image,
        # A run that follows on the same disk has its own command beside the first.
        [*spec.command, plan.resume, plan.location] if plan is not None else [],
    ]
    return len(json.dumps(told))
