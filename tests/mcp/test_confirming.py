"""Keep and stop are stored as requests only once a person confirmed that very act, within the token's scopes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from mcp_types import ElicitRequestParams, ElicitResult
from sqlalchemy import update
from tests.api import rows
from tests.api.rows import NOW
from tests.mcp.lab import ADA, VIC, Lab, make_lab
from tests.mcp.talking import answer_of, plain, talk
from tests.serving import serving

from costguard.db.tables import lifetimes
from costguard.db.transaction import Database
from costguard.model.access import Role
from costguard.model.managed.origin import VERTEX
from costguard_client import Client
from costguard_client.mcp.confirming import GOOD_FOR_S
from costguard_client.mcp.marking import Words
from costguard_client.mcp.offer import make_server
from costguard_client.mcp.server import GuardServer
from mcp import Client as Agent

STOP = {"project": "lab", "gce_id": "4711", "reason": "nobody uses it"}
HOUR = timedelta(hours=1)
RUNTIME = "vertex.notebookRuntimes.us-central1.12"


class Site:
    def __init__(self, lab: Lab, url: str) -> None:
        self.lab, self.url, self.seconds = lab, url, 0.0

    def server(self, role: Role = Role.OPERATOR, address: str = ADA) -> GuardServer:
        client = Client(self.url, self.lab.token(role, address), environ={}, program="mcp")
        return make_server(client, lambda: self.seconds)


@pytest.fixture
def site(sqlite_database: Database) -> Iterator[Site]:
    with sqlite_database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, 'x"?\nConfirm', gce_id="4711")
        rows.lifetime(connection, vm, NOW - 9 * HOUR)
        rows.instance(connection, "slept", gce_id="4712", status="stopped")
        node = rows.instance(connection, "gke-1", gce_id="4713", labels={"goog-gke-node": ""})
        rows.lifetime(connection, node, NOW - 9 * HOUR)
        runtime = rows.instance(
            connection, "notes", gce_id=RUNTIME, origin={VERTEX: "notebookRuntimes/12"}, zone="us-central1"
        )
        rows.lifetime(connection, runtime, NOW - 9 * HOUR)
    lab = make_lab(sqlite_database)
    with serving(lab.app) as url:
        yield Site(lab, url)
    lab.authenticator.close()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(("tool", "more"), [("stop_vm", {}), ("keep_vm", {"hours": 4})])
def test_a_client_that_can_ask_asks_its_user_and_one_request_is_stored(
    site: Site, mode: str, tool: str, more: dict[str, Any]
) -> None:
    """The protocol is that of 2026 and those before it. The question is the whole act, with names quoted."""
    questions: list[str] = []

    async def agree(_: Any, params: ElicitRequestParams) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"confirm": True})

    async def act(agent: Agent) -> Any:
        return await agent.call_tool(tool, {**STOP, **more})

    answer = plain(answer_of(talk(site.server(), act, elicitation_callback=agree, mode=mode)))
    assert answer["done"] is True
    assert answer["request"]["kind"] == tool.removesuffix("_vm")
    assert answer["request"]["by"] == ADA
    assert answer["request"]["reason"] == STOP["reason"]
    assert site.lab.requests() == 1
    [question] = questions
    assert '"x\\"? Confirm"' in question
    assert '"4711"' in question
    assert "\n" not in question


@pytest.mark.parametrize(
    "reply",
    [
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
        ElicitResult(action="accept", content={"confirm": False}),
    ],
)
def test_what_the_user_does_not_confirm_is_not_requested(site: Site, reply: ElicitResult) -> None:
    """Declined, closed, or accepted with "no"."""

    async def refuse(*_: Any) -> ElicitResult:
        return reply

    async def act(agent: Agent) -> Any:
        return await agent.call_tool("stop_vm", STOP)

    answer = answer_of(talk(site.server(), act, elicitation_callback=refuse))
    assert answer == {"done": False, "answer": Words.DECLINED}
    assert site.lab.requests() == 0


def test_a_client_that_cannot_ask_confirms_in_a_second_call_once(site: Site) -> None:
    """The first call stores nothing and shows the act; its token carries out that act, and no second one."""

    async def act(agent: Agent) -> list[Any]:
        first = answer_of(await agent.call_tool("stop_vm", STOP))
        stored = [site.lab.requests()]
        token = {"confirmation": first["confirmation"]}
        again = [answer_of(await agent.call_tool("confirm", token)) for _ in range(2)]
        return [first, *again, *stored]

    first, done, repeated, before = talk(site.server(), act)
    assert (first["done"], before) == (False, 0)
    assert plain(first["meant"])["gce_id"] == "4711"
    assert done["done"] is True
    assert repeated == {"done": False, "answer": Words.NO_CONFIRMATION}
    assert site.lab.requests() == 1


def test_a_confirmation_expires_after_five_minutes(site: Site) -> None:
    """Nobody confirms now what was meant an hour ago."""

    async def act(agent: Agent) -> Any:
        first = answer_of(await agent.call_tool("keep_vm", STOP))
        site.seconds += GOOD_FOR_S
        return answer_of(await agent.call_tool("confirm", {"confirmation": first["confirmation"]}))

    assert talk(site.server(), act) == {"done": False, "answer": Words.NO_CONFIRMATION}
    assert site.lab.requests() == 0


def test_a_confirmation_of_another_server_is_unknown(site: Site) -> None:
    """Each process knows only what it was asked itself."""

    async def ask(agent: Agent) -> str:
        token: str = answer_of(await agent.call_tool("stop_vm", STOP))["confirmation"]
        return token

    token = talk(site.server(), ask)
    assert re.fullmatch("[0-9a-f]{32}", token)

    async def act(agent: Agent) -> Any:
        return answer_of(await agent.call_tool("confirm", {"confirmation": token}))

    assert talk(site.server(), act)["done"] is False
    assert site.lab.requests() == 0


def test_a_viewers_token_stores_no_request(site: Site) -> None:
    """The permission is the server's to give, even when its user confirms."""

    async def act(agent: Agent) -> Any:
        first = answer_of(await agent.call_tool("stop_vm", STOP))
        return await agent.call_tool("confirm", {"confirmation": first["confirmation"]})

    result = talk(site.server(Role.VIEWER, VIC), act)
    assert result.is_error
    assert answer_of(result)["error"] == Words.FORBIDDEN
    assert site.lab.requests() == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({**STOP, "gce_id": "99"}, Words.MISSING),
        ({**STOP, "gce_id": "4712"}, Words.CONFLICT),
        ({**STOP, "gce_id": "4713"}, Words.CONFLICT),
        ({**STOP, "gce_id": RUNTIME}, Words.CONFLICT),
        ({**STOP, "gce_id": "vertex.notebookRuntimes.us-central1.13"}, Words.MISSING),
        ({**STOP, "gce_id": "vertex.notebookRuntimes..13/../4711"}, Words.INVALID),
        ({**STOP, "gce_id": "../4711"}, Words.INVALID),
        ({**STOP, "project": ".."}, Words.INVALID),
        ({**STOP, "reason": ""}, Words.INVALID),
    ],
)
def test_what_cannot_be_stopped_is_said_plainly(site: Site, arguments: dict[str, str], said: Words) -> None:
    """Unknown and stopped VMs, what has a keeper, and arguments that would leave an address are refused."""

    async def act(agent: Agent) -> Any:
        return await agent.call_tool("stop_vm", arguments)

    result = talk(site.server(), act)
    assert result.is_error
    assert answer_of(result)["error"] == said


@pytest.mark.parametrize(("token", "said"), [("", Words.SIGN_IN), ("wrong", Words.SIGN_IN)])
def test_without_a_good_token_the_user_learns_where_to_set_one(site: Site, token: str, said: Words) -> None:
    """An agent cannot mend it; its user can."""

    async def act(agent: Agent) -> Any:
        return await agent.call_tool("fleet", {})

    result = talk(make_server(Client(site.url, token, environ={})), act)
    assert result.is_error
    assert answer_of(result)["error"] == said


def test_a_server_that_is_away_is_named() -> None:
    """Nothing listens on that port."""

    async def act(agent: Agent) -> Any:
        return await agent.call_tool("fleet", {})

    result = talk(make_server(Client("http://127.0.0.1:9", "token", environ={})), act)
    assert answer_of(result)["error"] == Words.UNREACHABLE


def test_a_vm_that_was_started_again_since_is_not_stopped(site: Site) -> None:
    """The user agreed to stop the run that was shown, not the one that began while they read."""

    async def act(agent: Agent) -> tuple[Any, Any]:
        first = answer_of(await agent.call_tool("stop_vm", STOP))
        with site.lab.database.write() as connection:
            connection.execute(update(lifetimes).values(started_at=NOW - HOUR))
        return first, answer_of(await agent.call_tool("confirm", {"confirmation": first["confirmation"]}))

    first, refused = talk(site.server(), act)
    assert first["done"] is False
    assert refused["error"] == Words.CONFLICT
    assert site.lab.requests() == 0
