"""Records databases of a revision from that revision's own code: `python -m tests.upgrades.record [REVISION...]`.

Without arguments, every revision before the last that has no recording. The last commit whose migrations ended at the
revision is checked out in a throw-away worktree; its own tests run there, on its own code, and of the SQLite files
that they leave the smallest set is kept that fills the most tables.
"""

from __future__ import annotations

import argparse
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.upgrades.recordings import Recording, Table, read_sqlite, recorded_revisions, save

ROOT = Path(__file__).parents[2]
_VERSIONS = "alembic/versions"
_MOST_ROWS = 1_500
_MOST_DATABASES = 3
_LIMIT_S = 75  # for all tests of one revision: what they left until then will do
_WANTED = (  # tests that run in one process and leave much in a database
    r"tests/(api|pages)/test_(jobs|spend|tokens|requests|budgets|sessions)\.py",
    r"tests/scenario/test_slack_story(_notifications)?\.py",
    r"tests/[\w/]*/test_(storm|hangs|drills?|cancel_after|disk|delivery|idle_watch)\.py",
    r"tests/(sweeps|bill|progress|diagnosis|jobs)/test_(?!crash|recovery|disks)\w+\.py",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revisions", nargs="*", metavar="REVISION")
    wanted = parser.parse_args().revisions
    last_commits = _last_commits()
    missing = [revision for revision in sorted(last_commits)[:-1] if revision not in recorded_revisions()]
    for revision in wanted or missing:
        if revision not in last_commits:
            sys.exit(f"No commit of this branch ends at revision {revision}.")
        _record(revision, last_commits[revision])


def _record(revision: str, commit: str) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="costguard-recording-", ignore_cleanup_errors=True) as folder,
        _worktree(commit, folder) as tree,
    ):
        left = Path(folder) / "left"
        _run_tests(tree, left)
        candidates = list(_databases(left, revision))
        if not candidates:
            sys.exit(f"The tests of {commit[:9]} left no database of revision {revision}: look at {_WANTED}.")
        chosen = [_without_places(recording, folder) for recording in chosen_from(candidates)]
    path = save(revision, chosen)
    filled = set().union(*(recording.filled for recording in chosen))
    rows = "+".join(str(recording.size) for recording in chosen)
    tables = f"{len(filled)} of {len(chosen[0].tables)} tables filled"
    print(f"{revision} from {commit[:9]}: {rows} rows, {tables}, {path.stat().st_size} bytes", flush=True)


def chosen_from(candidates: list[Recording]) -> list[Recording]:
    """Chooses at most three, each the one that fills most tables still empty, and of equals the one with most rows."""
    chosen: list[Recording] = []
    filled: set[str] = set()
    while len(chosen) < _MOST_DATABASES:
        best = max(candidates, key=lambda recording: (len(recording.filled - filled), recording.size))
        if chosen and not best.filled - filled:
            break
        chosen.append(best)
        filled |= best.filled
    return chosen


def _databases(left: Path, revision: str) -> Iterator[Recording]:
    for path in sorted(left.rglob("*.db")):
        with suppress(sqlite3.Error, IndexError):
            recording = read_sqlite(path, made_by=path.parent.name)
            if recording.revision == revision and 0 < recording.size <= _MOST_ROWS:
                yield recording


def _run_tests(tree: Path, left: Path) -> None:
    paths = _git("ls-files", "tests", folder=tree).split()
    tests = [path for pattern in _WANTED for path in paths if re.fullmatch(pattern, path)]
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'service'}{os.pathsep}{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", f"--basetemp={left}"]
    options = [
        "-k",
        "not postgresql",
        "-o",
        "addopts=",
        "-o",
        "tmp_path_retention_policy=all",
        "--continue-on-collection-errors",
        "-W",
        "default",
    ]
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            [*command, *options, *dict.fromkeys(tests)],
            cwd=tree,
            env=environment,
            timeout=_LIMIT_S,
            capture_output=True,
            text=True,
        )
        print(done.stdout.strip().splitlines()[-1:] or done.stderr[-500:], flush=True)


def _without_places(recording: Recording, folder: str) -> Recording:
    """Paths of this computer's temporary folder are replaced by one that says nothing."""

    def clean(value: Any) -> Any:
        return value.replace(folder, "/var/tmp/recorded") if isinstance(value, str) else value

    tables = {
        name: Table(table.columns, [[clean(value) for value in row] for row in table.rows])
        for name, table in recording.tables.items()
    }
    return replace(recording, tables=tables)


def _last_commits() -> dict[str, str]:
    """Returns, by revision, the last commit on the way to HEAD whose migrations are those of today up to it.

    Numbers that a commit gave to other migrations, before they were put in order, count for nothing.
    """
    today = sorted(path for path in _git("ls-files", _VERSIONS).split() if path.endswith(".py"))
    upto = {frozenset(today[: number + 1]): Path(path).name[:4] for number, path in enumerate(today)}
    last: dict[str, str] = {}
    files: set[str] = set()
    commit = ""
    log = _git("log", "--first-parent", "--reverse", "--format=commit %H", "--name-status", "--no-renames", "HEAD")
    for line in [*log.splitlines(), "commit "]:
        if line.startswith("commit "):
            if revision := upto.get(frozenset(files)):
                last[revision] = commit
            commit = line.removeprefix("commit ")
        elif match := re.fullmatch(rf"([AD])\t({_VERSIONS}/\d{{4}}_\w+\.py)", line):
            (files.add if match[1] == "A" else files.discard)(match[2])
    return last


@contextmanager
def _worktree(commit: str, folder: str) -> Iterator[Path]:
    tree = Path(folder) / "tree"
    _git("worktree", "add", "--detach", "--quiet", str(tree), commit)
    try:
        yield tree
    finally:
        _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str, folder: Path = ROOT) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
