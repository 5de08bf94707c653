"""The output of jobs over the API: its end, the whole of it, searches, and what cannot be read."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.api.conftest import deps_of
from tests.api.rows import NOW
from tests.jobs import job_rows

from costguard.api.app import create_app
from costguard.checkpoints.archives import StoredArchives
from costguard.checkpoints.buckets import StoreAccess
from costguard.db.transaction import Database
from costguard.jobs.rows import agent_rows
from costguard.model.attempt import AgentState
from costguard.model.job import CheckpointPlan

ID = "j7k2m9q4"
OUTPUT = f"/api/v1/jobs/{ID}/output"
LINES = [f"step {number} loss {number / 7:.3f}" for number in range(500)]


@pytest.fixture
def location(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def client(database: Database, location: Path) -> TestClient:
    """A job with an attempt, whose checkpoints are in a folder that this server reads as well."""
    with database.write() as connection:
        job_rows.added(connection, checkpoint=CheckpointPlan(f"file://{location}"))
        made = job_rows.attempt(connection)
        agent_rows.hear(connection, made.id, AgentState(NOW, 1, output="the end\n"))
    opened = replace(deps_of(database), output=lambda folder: StoredArchives(folder, StoreAccess()))
    return TestClient(create_app(opened))


@pytest.fixture
def store(location: Path) -> Callable[[bytes], None]:
    def write(content: bytes) -> None:
        path = location / ".costguard" / "logs" / f"cg-{ID}-1" / "1" / f"{0:015d}.log.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content))

    return write


def test_the_stored_output_is_read_page_by_page(client: TestClient, store: Callable[[bytes], None]) -> None:
    """Until its end, and on from there once more is stored."""
    text = "".join(f"{line}\n" for line in LINES)
    store(text.encode())
    begin, read, answers = "start", "", 0
    while True:
        answer = client.get(OUTPUT, params={"begin": begin, "lines": 200}).json()
        read, begin, answers = read + answer["output"], answer["next"], answers + 1
        if answer["is_end"]:
            break
    assert (read, answers) == (text, 3)
    assert answer["stored_at"] is not None
    store(f"{text}more\n".encode())
    assert client.get(OUTPUT, params={"begin": begin}).json()["output"] == "more\n"


def test_a_search_returns_the_matching_lines(client: TestClient, store: Callable[[bytes], None]) -> None:
    """The search begins at the start without `begin`."""
    store("".join(f"{line}\n" for line in LINES).encode())
    answer = client.get(OUTPUT, params={"search": r"step \d99 "}).json()
    assert answer["output"].splitlines() == [line for line in LINES if "99 " in line.partition("loss")[0][-4:]][1:]
    assert answer["is_end"] is True


def test_the_whole_output_is_downloaded_as_text(client: TestClient, store: Callable[[bytes], None]) -> None:
    """The download has the name of the attempt, and is never shown as a page."""
    store(b"<b>one</b>\ntwo")
    answer = client.get(f"{OUTPUT}/text")
    assert answer.text == "<b>one</b>\ntwo\n"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="cg-{ID}-1.log"'


def test_before_anything_is_stored_the_end_is_there(client: TestClient, location: Path) -> None:
    """The answer is the VM's last report, with where the whole output will be."""
    answer = client.get(OUTPUT).json()
    assert (answer["output"], answer["next"]) == ("the end\n", None)
    assert answer["stored"] == f"file://{location}/.costguard/logs/cg-{ID}-1"
    nothing = client.get(OUTPUT, params={"begin": "start"}).json()
    assert (nothing["output"], nothing["is_end"], nothing["stored_at"]) == ("", True, None)


@pytest.mark.parametrize(
    ("params", "words"), [({"begin": "7"}, "no place in an output"), ({"search": "(a"}, "regular expression")]
)
def test_what_cannot_be_meant_is_refused(client: TestClient, params: dict[str, str], words: str) -> None:
    """The refusal says what is wrong, and what to write instead."""
    answer = client.get(OUTPUT, params=params)
    assert (answer.status_code, words in answer.json()["detail"]) == (422, True), answer.json()


def test_a_place_that_cannot_be_read_is_unavailable(client: TestClient, location: Path) -> None:
    """The answer is not an empty output."""
    location.parent.mkdir(parents=True, exist_ok=True)
    location.write_text("a file where the folder should be")
    assert client.get(OUTPUT, params={"begin": "start"}).status_code == 503
    assert client.get(f"{OUTPUT}/text").status_code == 503


def test_output_that_is_stored_nowhere_is_said_to_be(database: Database) -> None:
    """The answer names the setting that mends it for later jobs."""
    with database.write() as connection:
        job_rows.added(connection, checkpoint=None)
        made = job_rows.attempt(connection)
        agent_rows.hear(connection, made.id, AgentState(NOW, 1, output="the end\n"))
    client = TestClient(create_app(deps_of(database)))
    assert client.get(OUTPUT).json()["stored"] == ""
    answer = client.get(f"{OUTPUT}/text")
    assert answer.status_code == 404
    assert "[jobs] logs" in answer.json()["next"]
