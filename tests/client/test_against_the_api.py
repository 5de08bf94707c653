"""The clients against the real API behind a real server, and what importing them costs."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api import story
from tests.client.both import clients
from tests.serving import serving

from costguard.db.transaction import Database
from costguard.errors import Conflict, Invalid, Missing
from costguard.model.access import Role
from costguard_client import Client
from costguard_client.api import operations
from costguard_client.calls import Call


@pytest.fixture
def lab(sqlite_database: Database) -> Iterator[story.Story]:
    lab = story.make_story(sqlite_database)
    yield lab
    lab.authenticator.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_job_is_launched_once_read_and_cancelled(lab: story.Story, kind: str) -> None:
    """The caller has an operator's token, whose address is recorded."""
    body: dict[str, Any] = {"preset": "t4", "image": "ghcr.io/lab/train:v1", "command": ["python", "train.py"]}
    with serving(lab.app) as site, clients(kind, site, lab.token(Role.OPERATOR, story.ADA)) as client:
        launched = client.launch(**body, key="one")
        assert client.launch(**body, key="one").id == launched.id
        with pytest.raises(Conflict):
            client.launch(**{**body, "preset": "a100"}, key="one")
        assert client.finish(launched.output()) == ""
        cancelled = client.finish(launched.cancel("a test"))
        assert cancelled.detail["job"]["cancel_asked_by"] == story.ADA
        listed = client.all(client.client.rows(operations.list_jobs(limit=2), "jobs"))
        assert launched.id in [job["id"] for job in listed]
        assert len(listed) > 2
        assert client.call(operations.get_spend(group_by=["preset"]))["group_by"] == ["preset"]
        assert client.call(operations.get_spend_by_label("owner"))["label"] == "owner"
        assert client.call(operations.quote_job({**body, "hours": 3}))["preset"] == "t4"  # type: ignore[typeddict-item]
        with pytest.raises(Missing):
            client.call(operations.get_job("nowhere"))
        with pytest.raises(Invalid) as refused:
            client.launch(preset="b300", command=["true"])
        assert "body.preset" in [where for where, _ in refused.value.fields]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_sweep_is_launched_once_and_cancelled(lab: story.Story, kind: str) -> None:
    """The sweep has a key like a job; its members are in its answer."""
    job: Any = {"preset": "t4", "command": ["python", "train.py", "--lr", "{lr}"]}
    with serving(lab.app) as site, clients(kind, site, lab.token(Role.OPERATOR, story.ADA)) as client:
        sweeps = [
            client.finish(client.client.launch_sweep(job=job, grid={"lr": [0.1, 0.01]}, ceiling="40", key="one"))
            for _ in range(2)
        ]
        first, again = (sweep["sweep"]["id"] for sweep in sweeps)
        assert first == again
        assert [member["parameters"] for member in sweeps[0]["members"]] == [{"lr": "0.1"}, {"lr": "0.01"}]
        cancelled = client.finish(client.client.cancel_sweep(first, {"reason": "a test"}))
        assert cancelled["sweep"]["id"] == first
        assert first in [sweep["id"] for sweep in client.finish(client.client.sweeps())["sweeps"]]


def test_every_list_of_the_api_answers_the_generated_call(lab: story.Story) -> None:
    """Each call without an argument that it needs is a read, and the real server accepts it."""
    reads = [
        make
        for name, make in inspect.getmembers(operations, inspect.isfunction)
        if all(
            part.default is not part.empty or part.kind is part.VAR_KEYWORD
            for part in inspect.signature(make).parameters.values()
        )
        and name != "end_sessions"
    ]
    assert len(reads) > 20
    with serving(lab.app) as site, Client(site, story.MASTER, environ={}) as client:
        for make in reads:
            call: Call[Any] = make()
            assert call.method == "GET", make.__name__
            assert client.call(call), make.__name__


def test_every_operation_of_the_document_has_a_call() -> None:
    """The exceptions are agents' reports and metrics, and the stream of events, whole logs and FOCUS, which are no
    JSON.
    """
    document = json.loads((Path(__file__).parents[1] / "golden/files/openapi/openapi.json").read_text("utf-8"))
    tagged = [operation for methods in document["paths"].values() for operation in methods.values()]
    ids = {one["operationId"] for one in tagged if one["tags"] not in (["agents"], ["metrics"])} - {
        "downloadOutput",
        "exportFocus",
        "streamEvents",
    }
    made = {name.replace("_", "") for name, _ in inspect.getmembers(operations, inspect.isfunction)}
    assert {name.lower() for name in ids} == made


def test_importing_the_client_loads_no_server_and_no_slow_library() -> None:
    """A command starts quickly; httpx2 and asyncio come with the first AsyncClient."""
    heavy = ("fastapi", "pydantic", "sqlalchemy", "httpx2", "asyncio", "google", "typer", "obstore")
    code = f"import sys, costguard_client; print([name for name in {heavy!r} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.strip() == "[]"
