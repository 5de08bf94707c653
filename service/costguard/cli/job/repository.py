"""The git repository around a work directory: the files that git knows, the commit, and what is not committed."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from costguard import credentials
from costguard.errors import CostguardError

MOST_DIFF = 16_000  # characters
_MOST_READ = 1 << 20
_MOST_NAMED = 20
# Settings of a repository or a user must not run programs, colour the output or change what it means.
_PLAIN = ("-c", "core.fsmonitor=false", "-c", "core.quotepath=false", "-c", "diff.external=", "-c", "color.ui=false")


@dataclass(frozen=True, slots=True)
class RepositoryState:
    """`commit` is empty before the first one. `branch` is empty where HEAD is detached. `diff` holds no credentials."""

    commit: str = ""
    branch: str = ""
    diff: str = ""


def in_repository(folder: Path) -> bool:
    """Says whether git is installed and the folder is inside of a work tree."""
    return shutil.which("git") is not None and _git(folder, "rev-parse", "--is-inside-work-tree") == b"true\n"


def repository_files(folder: Path) -> list[bytes]:
    """Paths below the folder that git tracks or would track, also in submodules. Deleted files are left out."""
    listed = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed is None:
        raise CostguardError(f"git cannot list the files in {folder}.", "Run `git status` there to see why.")
    names: list[bytes] = []
    for name in sorted(set(listed.split(b"\x00")) - {b""}):
        path = os.path.join(os.fsencode(folder), name)
        if os.path.isdir(path) and not os.path.islink(path):  # a submodule, or a repository inside of this one
            names += [name.rstrip(b"/") + b"/" + inner for inner in repository_files(Path(os.fsdecode(path)))]
        elif os.path.lexists(path):
            names.append(name)
    return names


def state_of(folder: Path) -> RepositoryState:
    """The commit, the branch, and the changes below the folder that are in no commit, cut where they are long."""
    commit = _text(_git(folder, "rev-parse", "--verify", "--quiet", "HEAD"))
    branch = _text(_git(folder, "symbolic-ref", "--short", "--quiet", "HEAD"))
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short")
    changed = _git(folder, "diff", *options, *(["HEAD"] if commit else []), "--", ".") or b""
    diff = changed[:_MOST_READ].decode("utf-8", "replace")
    added = (_git(folder, "ls-files", "-z", "--others", "--exclude-standard") or b"").split(b"\x00")[:-1]
    names = [name.decode("utf-8", "replace") for name in sorted(added)]
    if names:
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        diff = f"Not tracked: {', '.join(names[:_MOST_NAMED])}{more}\n{diff}"
    return RepositoryState(commit, branch, shortened(credentials.hidden(diff)))


def shortened(diff: str) -> str:
    """Cut at the end of a line."""
    if len(diff) <= MOST_DIFF:
        return diff
    kept = diff[:MOST_DIFF].rpartition("\n")[0]
    left = diff.count("\n") - kept.count("\n")
    return f"{kept}\n... {left} more lines\n"


def _text(output: bytes | None) -> str:
    return (output or b"").decode("utf-8", "replace").strip()[:200]


def _git(folder: Path, *arguments: str) -> bytes | None:
    """Returns the output of a git command; None where it fails."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    done = subprocess.run(  # noqa: S603 - no shell, and the options are ours
        ["git", *_PLAIN, "-C", os.fspath(folder), *arguments],  # noqa: S607 - the user's own
        capture_output=True,
        check=False,
        env=environment,
    )
    return done.stdout if done.returncode == 0 else None
