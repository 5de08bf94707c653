"""`costguard output --all`, `--grep` and `--follow`: the stored output of all attempts, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from tests.cli.conftest import Run

from costguard.cli.job.jobs import stored_lines
from costguard.cli.server import ServerClient
from costguard.db.transaction import Database


class Job:
    """A job as its server shows it: the lines that are stored of each attempt, two in an answer."""

    def __init__(self, **stored: list[str]) -> None:
        self.stored = {int(name.removeprefix("attempt")): lines for name, lines in stored.items()}
        self.state = "running"

    def get(self, *path: str, attempt: int = 0, begin: str = "", lines: int = 0) -> dict[str, Any]:
        if path[-1] != "output":
            attempts = [{"number": number, "heard_at": "2026-11-20T12:00:00Z"} for number in self.stored]
            return {"job": {"state": self.state}, "attempts": [*attempts, {"number": 9, "heard_at": None}]}
        first = 0 if begin == "start" else int(begin)
        part = self.stored[attempt][first : first + 2]
        is_end = first + len(part) == len(self.stored[attempt])
        return {"output": "".join(f"{line}\n" for line in part), "next": str(first + len(part)), "is_end": is_end}

    def lines(self, attempt: int | None = None, is_followed: bool = False, wait: Any = None) -> Iterator[str]:
        return stored_lines(cast("ServerClient", self), "j1", attempt, is_followed, wait)


def test_all_of_every_attempt_is_read_in_order() -> None:
    """The attempts are read however many answers that takes; one attempt alone where it is named."""
    job = Job(attempt1=["a", "b", "c"], attempt2=["d"])
    assert list(job.lines()) == ["a", "b", "c", "d"]
    assert list(job.lines(attempt=1)) == ["a", "b", "c"]
    assert list(Job().lines()) == []


def test_a_job_is_followed_over_its_attempts_to_its_end() -> None:
    """The output stored by the time it ended is read too, and nothing twice."""
    job = Job(attempt1=["a"])
    news = iter([("more", 1, ["b"]), ("next", 2, ["c"]), ("over", 2, ["d"])])

    def wait() -> None:
        what, attempt, lines = next(news)
        job.stored.setdefault(attempt, []).extend(lines)
        job.state = "succeeded" if what == "over" else "running"

    assert list(job.lines(is_followed=True, wait=wait)) == ["a", "b", "c", "d"]


def test_wrong_options_are_refused_before_anything_is_read(sqlite_database: Database, run: Run) -> None:
    """A pattern that is none, and JSON of what is text."""
    wrong = run("output", "j1", "--grep", "(a")
    assert (wrong.returncode, "--grep" in wrong.stderr) == (2, True)
    assert run("output", "j1", "--all", "--json").returncode == 2
