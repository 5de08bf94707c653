"""The files of a work directory that travel to a job's VMs: chosen by git or by ignore files, and checked."""

from __future__ import annotations

import errno
import os
import stat
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from costguard.cli.job import repository
from costguard.errors import CostguardError, Invalid
from costguard_vm.model.code_archive import FILE, LINK, MOST_BYTES, MOST_FILES, problem_of

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

OWN_IGNORES = ".costguardignore"
_NEVER = frozenset({".git", "__pycache__"})  # compiled files hold times: the same folder would differ
_MOST_SHOWN = 5
_LEAVE_OUT = f"List what the job does not need in {OWN_IGNORES}, written like a .gitignore"


@dataclass(frozen=True, slots=True)
class WorkFile:
    """`name` is relative, with slashes. `target` is a link's, else empty. `mode` has the permissions alone."""

    name: str
    mode: int
    size: int
    target: str = ""


def work_files(folder: Path) -> list[WorkFile]:
    """Lists the files to pack, by name. Raises Invalid with all files that cannot travel."""
    if not folder.is_dir():
        raise Invalid(f"There is no folder {folder}.", "Name the folder that holds the job's code: --workdir .")
    is_repository = repository.in_repository(folder)
    names = repository.repository_files(folder) if is_repository else sorted(_walk(folder))
    ignores = Ignores(folder, OWN_IGNORES)
    files: list[WorkFile] = []
    problems: list[str] = []
    for raw in names:
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            problems.append(f"{raw!r} is no name in UTF-8")
            continue
        if _NEVER.isdisjoint(name.split("/")) and not ignores.ignored(name):
            file, problem = _look(folder, name)
            problems += [problem] if problem else []
            files += [file] if file is not None else []
    if problems:
        more = f"; and {len(problems) - _MOST_SHOWN} more" if len(problems) > _MOST_SHOWN else ""
        raise Invalid(f"{folder} cannot be packed: {'; '.join(problems[:_MOST_SHOWN])}{more}.", f"{_LEAVE_OUT}.")
    _check_size(folder, files)
    return files


def _check_size(folder: Path, files: Sequence[WorkFile]) -> None:
    total = sum(file.size for file in files)
    if not files:
        raise Invalid(
            f"There is nothing to pack in {folder}: it is empty, or everything in it is ignored.",
            "`git status --ignored` there shows what git ignores; a .costguardignore in it leaves out more.",
        )
    if total <= MOST_BYTES and len(files) <= MOST_FILES:
        return
    largest = sorted(files, key=lambda file: (-file.size, file.name))[:_MOST_SHOWN]
    shown = ", ".join(f"{file.name} ({size_text(file.size)})" for file in largest)
    raise Invalid(
        f"{folder} has {len(files):,} files with {size_text(total)}, and code may have {MOST_FILES:,} files with "
        f"{size_text(MOST_BYTES)}. The largest: {shown}.",
        f"{_LEAVE_OUT}; bring data from a bucket with --input.",
    )


def size_text(size: int) -> str:
    """Such as `812 KiB` or `1.3 GiB`, rounded up to a KiB below a MiB."""
    if size < 1 << 20:
        return f"{-(-size >> 10)} KiB"
    unit, name = (1 << 30, "GiB") if size >= 1 << 30 else (1 << 20, "MiB")
    return f"{size / unit:.1f} {name}"


def _look(folder: Path, name: str) -> tuple[WorkFile | None, str]:
    """The file, or why it cannot travel."""
    path = os.path.join(folder, name)
    try:
        state = os.lstat(path)
        if stat.S_ISLNK(state.st_mode):
            return _look_at_link(folder, name, path)
        if not stat.S_ISREG(state.st_mode):
            return None, f"{name} is neither a file nor a link"
        with open(path, "rb"):
            pass
    except OSError as wrong:
        return None, f"{name} cannot be read: {wrong.strerror or wrong}"
    problem = problem_of(name, FILE)
    return WorkFile(name, stat.S_IMODE(state.st_mode) & 0o777, state.st_size), problem


def _look_at_link(folder: Path, name: str, path: str) -> tuple[WorkFile | None, str]:
    target = os.readlink(path)
    if problem := problem_of(name, LINK, target):
        return None, problem
    try:
        os.stat(path)
    except OSError as wrong:
        if wrong.errno == errno.ELOOP:
            return None, f"{name} is a link that leads to itself, through {target}"
    root, parent, real = os.path.realpath(folder), os.path.realpath(os.path.dirname(path)), os.path.realpath(path)
    if real != root and not real.startswith(root + os.sep):
        return None, f"{name} is a link that leads out of the folder, to {real}"
    if os.path.isdir(real) and (parent == real or parent.startswith(real + os.sep)):
        return None, f"{name} is a link to a folder that it lies in, so that the folder would hold itself"
    return WorkFile(name, 0o777, 0, target), ""


def _walk(folder: Path) -> Iterator[bytes]:
    """Everything below that no .gitignore names: for a folder outside of a repository, or a computer without git."""
    ignores = Ignores(folder, ".gitignore")
    waiting = [""]
    while waiting:
        inner = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(folder, inner)))
        except OSError as wrong:
            raise CostguardError(f"{inner or folder} cannot be read: {wrong.strerror or wrong}.", _LEAVE_OUT) from None
        for entry in entries:
            name = f"{inner}/{entry.name}" if inner else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name in _NEVER or ignores.ignored(name, is_folder=is_folder):
                continue
            if is_folder:
                waiting.append(name)
            else:
                yield os.fsencode(name)


class Ignores:
    """The ignore files with one name in a folder and in the folders below, read as git reads a .gitignore:
    the last pattern that matches counts, deeper files later, and nothing below an ignored folder is looked at."""

    def __init__(self, folder: Path, file_name: str) -> None:
        self._folder, self._file_name = folder, file_name
        self._specs: dict[str, GitIgnoreSpec | None] = {}
        self._folders: dict[str, bool] = {"": False}

    def ignored(self, name: str, *, is_folder: bool = False) -> bool:
        parent = name.rpartition("/")[0]
        if self._is_folder_ignored(parent):
            return True
        return self._matches(name, is_folder)

    def _is_folder_ignored(self, name: str) -> bool:
        if name not in self._folders:
            self._folders[name] = self.ignored(name, is_folder=True)
        return self._folders[name]

    def _matches(self, name: str, is_folder: bool) -> bool:
        verdict = False
        parts = name.split("/")
        for depth in range(len(parts)):
            spec = self._spec("/".join(parts[:depth]))
            if spec is None:
                continue
            said = spec.check_file("/".join(parts[depth:]) + ("/" if is_folder else "")).include
            verdict = verdict if said is None else said
        return verdict

    def _spec(self, inner: str) -> GitIgnoreSpec | None:
        if inner not in self._specs:
            self._specs[inner] = self._read(os.path.join(self._folder, inner, self._file_name))
        return self._specs[inner]

    def _read(self, path: str) -> GitIgnoreSpec | None:
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return None
        except OSError as wrong:
            raise CostguardError(f"{path} cannot be read: {wrong.strerror or wrong}.", "Make it readable.") from None
        from pathspec import GitIgnoreSpec
        from pathspec.patterns.gitignore import GitIgnorePatternError

        try:
            with warnings.catch_warnings():
                # `[[]` is a set to git too; Python's regular expressions may read such sets otherwise one day.
                warnings.simplefilter("ignore", FutureWarning)
                return GitIgnoreSpec.from_lines(lines)
        except GitIgnorePatternError as wrong:
            raise Invalid(f"{path} holds a pattern that git would not take: {wrong}.", "Correct it.") from None
