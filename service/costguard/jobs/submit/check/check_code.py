"""Validates a job's code, its setup, and the folder in which its command runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from costguard import credentials
from costguard.jobs.submit.submission import MOST_DIFF, JobRefusal, shown
from costguard.model.job import JobSpec
from costguard_vm.model.code_archive import IN_IMAGE

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}|")


def code_problems(spec: JobSpec) -> Iterator[JobRefusal]:
    yield from _of_folder(spec)
    if "\x00" in spec.setup:
        yield JobRefusal("setup", "It holds a NUL character, which no shell can be given: take it out.")
    if spec.setup and not spec.setup.strip():
        yield JobRefusal("setup", "It is blank: write a command such as pip install -r requirements.txt, or none.")
    if spec.setup and not spec.command and not spec.image:
        yield JobRefusal("setup", "It prepares a VM for a command, and there is none: add one.")
    if kind := credentials.in_text(spec.setup):
        message = f"It holds what looks like {kind}, and many can read it: give it by reference in secrets"
        yield JobRefusal("setup", f"{message}, as a variable that the setup reads.")
    if spec.code is None:
        return
    if not _COMMIT.fullmatch(spec.code.commit):
        yield JobRefusal("code.commit", f"{shown(spec.code.commit)} is no commit of git: give its whole hash, or none.")
    if len(spec.code.diff) > MOST_DIFF:
        yield JobRefusal("code.diff", f"It is longer than {MOST_DIFF:,} characters: cut it.")
    for mount in spec.mounts:
        inside = mount.split(":")[1].rstrip("/") if ":" in mount else ""
        if inside == IN_IMAGE or inside.startswith(f"{IN_IMAGE}/") or IN_IMAGE.startswith(f"{inside}/"):
            yield JobRefusal("mounts", f"{shown(mount)} would hide the code in {IN_IMAGE}: mount it elsewhere.")


def _of_folder(spec: JobSpec) -> Iterator[JobRefusal]:
    """A path of the VM, or below the code."""
    folder = spec.workdir
    if not folder:
        return
    if not folder.isprintable():
        yield JobRefusal("workdir", f"{shown(folder)} is no plain path: write it out.")
    elif not folder.startswith("/") and spec.code is None:
        yield JobRefusal("workdir", f"{shown(folder)} is no whole path: begin it with a slash, or send code to run in.")
    elif not folder.startswith("/") and any(part in ("", ".", "..") for part in folder.rstrip("/").split("/")):
        yield JobRefusal("workdir", f"{shown(folder)} is no path below the code: write it out, such as src/train.")
