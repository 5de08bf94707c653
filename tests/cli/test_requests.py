"""People make requests about VMs from a terminal."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.api import rows
from tests.api.rows import NOW
from tests.cli.conftest import Run

from costguard.cli.requests import follow
from costguard.cli.server import ServerClient
from costguard.db.transaction import Database
from costguard.errors import CostguardError, ServerUnreachable
from costguard.reminders import request_rows

ANA = {"COSTGUARD_OWNER": "ana@lab.example"}


@pytest.fixture
def fleet(sqlite_database: Database) -> Database:
    with sqlite_database.write() as connection:
        for name, project in (("trainer-3", "lab"), ("twin", "lab"), ("twin", "shop")):
            vm = rows.instance(connection, name, project=project, owner="ana@lab.example")
            rows.lifetime(connection, vm, NOW - timedelta(hours=9))
    return sqlite_database


def test_a_vm_is_asked_about_as_it_was_seen(fleet: Database, run: Run) -> None:
    """Stop, keep and disown are stored, for the run that was looked at; a name of several VMs is not guessed."""
    commands = {
        ("stop", "trainer-3", "--reason", "done"): "Requested: stop trainer-3",
        ("keep", "trainer-3", "--hours", "6"): "Requested: keep trainer-3",
        ("disown", "trainer-3"): "Requested: disown trainer-3",
    }
    for command, said in commands.items():
        done = run(*command, **ANA)
        assert (done.returncode, said in done.stdout) == (0, True), done.stderr
    with fleet.read() as connection:
        stored = [request for _, request in request_rows.open_requests(connection)]
    assert [(one.kind.value, one.via, one.by) for one in stored] == [
        (verb, "cli", "ana@lab.example") for verb in ("stop", "keep", "disown")
    ]
    assert stored[1].hours == 6
    several = run("stop", "twin", **ANA)
    assert (several.returncode, "Several are called twin" in several.stderr) == (1, True)
    assert run("stop", "twin", "--project", "shop", **ANA).returncode == 0
    nobody = run("stop", "trainer-3")
    assert (nobody.returncode, "--owner: " in nobody.stderr) == (2, True)
    stranger = run("stop", "trainer-3", COSTGUARD_OWNER="eve@lab.example")
    assert (stranger.returncode, "Only ana@lab.example" in stranger.stderr) == (1, True)


def test_a_vm_that_another_keeps_is_not_stopped_from_a_terminal(fleet: Database, run: Run) -> None:
    """The command says whose it is and what to run instead, and stores nothing."""
    with fleet.write() as connection:
        labels = {"goog-k8s-cluster-name": "train", "goog-k8s-node-pool-name": "t4", "goog-k8s-cluster-location": "eu"}
        node = rows.instance(connection, "node-1", labels=labels, owner="ana@lab.example")
        rows.lifetime(connection, node, NOW - timedelta(hours=9))
    done = run("stop", "node-1", **ANA)
    said = " ".join(done.stderr.split())
    assert done.returncode == 1
    assert "node-1 belongs to GKE cluster train (node pool t4), so Costguard does not stop it" in said
    assert "Instead, stop its whole node pool with" in said
    assert "Ask one of them" not in said
    with fleet.read() as connection:
        assert list(request_rows.open_requests(connection)) == []


class Answers(ServerClient):
    """A server that answers each look with the next of these."""

    def __init__(self, *answers: str) -> None:
        super().__init__("http://127.0.0.1:1", {})
        self.answers = list(answers)

    def get(self, *path: str, **parameters: Any) -> dict[str, Any]:
        assert path == ("requests", "7")
        status = self.answers.pop(0)
        if status == "away":
            raise ServerUnreachable("No server answers.")
        return answered(status)


def answered(status: str) -> dict[str, Any]:
    return {"request": {"id": 7, "kind": "stop", "name": "trainer-3", "status": status, "outcome": "it was"}}


def test_waiting_ends_when_the_request_is_settled() -> None:
    """A server that is away for a while is waited for; when no pass comes, that is said."""
    said: list[str] = []
    pauses: list[None] = []
    server = Answers("open", "away", "done")
    done = follow(server, answered("open"), said.append, lambda: pauses.append(None))
    assert (done["request"]["status"], len(pauses), len(said)) == ("done", 3, 1)
    with pytest.raises(CostguardError, match="it stays open"):
        follow(Answers(*["open"] * 200), answered("open"), said.append, lambda: None)
