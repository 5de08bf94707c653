"""HEAD and Allow, as RFC 9110 has them."""

from __future__ import annotations

import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.browser import site as stories
from tests.serving import serving

from costguard.db.transaction import Database


@pytest.fixture(scope="module")
def client(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Nothing here changes anything, so that one story does for all."""
    path = tmp_path_factory.mktemp("methods") / "costguard.db"
    shutil.copy(sqlite_template, path)
    with closing(Database.open(f"sqlite:///{path}")) as database, TestClient(stories.tell(database).app) as client:
        yield client


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/", "/spend", "/api/v1/instances", "/api/v1/spend?format=csv", "/openapi.json"]
)
def test_head_answers_as_get_does_without_a_body(client: TestClient, path: str) -> None:
    """RFC 9110, 9.3.2: the same status and headers, and no content."""
    got, headed = client.get(path), client.head(path)
    assert (headed.status_code, headed.content) == (got.status_code, b"")
    assert headed.headers["content-type"] == got.headers["content-type"]


def test_head_of_a_stream_ends(sqlite_database: Database) -> None:
    """A monitor that sends HEAD to the stream of events gets its headers, over a real connection, and no stream."""
    with serving(stories.tell(sqlite_database).app) as site:
        request = urllib.request.Request(f"{site}/api/v1/events/stream", method="HEAD")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert (answer.status, answer.read()) == (200, b"")
            assert answer.headers["content-type"].startswith("text/event-stream")
        # The connection is not held: the next request is answered as well.
        with urllib.request.urlopen(f"{site}/healthz", timeout=60) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/api/v1/instances", "GET, HEAD"),
        ("DELETE", "/api/v1/jobs", "GET, HEAD, POST"),
        ("PATCH", "/api/v1/tokens", "GET, HEAD, POST"),
        ("POST", "/api/v1/sessions", "DELETE, GET, HEAD"),
        ("GET", "/api/v1/jobs/j7k2m9q4/cancel", "POST"),
        ("HEAD", "/api/v1/jobs/j7k2m9q4/cancel", "POST"),
        ("POST", "/healthz", "GET, HEAD"),
    ],
)
def test_allow_names_every_method_of_the_path(client: TestClient, method: str, path: str, allow: str) -> None:
    """RFC 9110, 15.5.6: the methods of all routes with this path, not of the first alone."""
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allow)
