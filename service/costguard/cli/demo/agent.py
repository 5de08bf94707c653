"""The demo's question over MCP: the server for agents is asked once, as an agent would ask it."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

from costguard.cli.server import ServerClient
from costguard.cli.tables import Answer, amount_text, rate

_QUESTION = "Which VMs are idle, and whose are they?"
HOW_INSTALLED = "Agents can ask, too, once `pip install 'costguard[mcp]'` has installed the library for that."
HOW_CONNECTED = "  claude mcp add costguard -- costguard mcp     # or any other client of the Model Context Protocol"


class Asked:
    """The question, put in a thread once there is an idle VM to answer with."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token
        self._answer: Future[str] | None = None
        self._is_over = not is_installed()

    def line(self, fleet: Answer) -> str:
        """The answer, once; "" before and after. `fleet` is what the API shows of it now."""
        if self._is_over:
            return ""
        if self._answer is None and any(_is_idle(vm) for vm in fleet["instances"]):
            thread = ThreadPoolExecutor(1, "mcp")
            self._answer = thread.submit(ask, self._url, self._token)
            thread.shutdown(wait=False)
        if self._answer is None or not self._answer.done():
            return ""
        self._is_over = True
        error = self._answer.exception()
        return self._answer.result() if error is None else f"An agent asked over MCP, and got no answer: {error}"


def is_installed() -> bool:
    return find_spec("mcp") is not None


def ask(url: str, token: str) -> str:
    """Calls the tool `fleet` of the server that `costguard mcp` runs, and tells its answer in a line."""
    import anyio

    from costguard_client.mcp.offer import make_server
    from mcp import Client

    server = make_server(ServerClient(url, {"COSTGUARD_TOKEN": token}))

    async def call() -> Any:
        async with Client(server) as client:
            return await client.call_tool("fleet", {"status": ["running"]})

    [content] = anyio.run(call).content
    idle = [vm for vm in json.loads(content.text)["answer"]["instances"] if _is_idle(vm)]
    answer = "; ".join(_described(vm) for vm in idle) or "none"
    return f'An agent asked over MCP "{_QUESTION}" The tool `fleet` answered: {answer}.'


def _is_idle(vm: Answer) -> bool:
    return vm["status"] == "running" and vm["idle"] is not None and vm["idle"]["state"] == "idle"


def _described(vm: Answer) -> str:
    hourly = amount_text(vm["rate_per_hour"], rate)
    return f"{_plain(vm['name'])} ({_plain(vm['owner']) or 'nobody'}, {hourly} an hour)"


def _plain(text: Any) -> str:
    """A text without its mark of being others' words."""
    return str(text["text_by_others"] if isinstance(text, dict) else text or "")
