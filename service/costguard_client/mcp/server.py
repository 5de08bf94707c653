"""The server: every answer and error leaves it through one place, which marks what others wrote."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult, TextContent
from pydantic import Field, ValidationError

from costguard import __version__
from costguard.errors import (
    Conflict,
    CostguardError,
    Forbidden,
    Invalid,
    Missing,
    ServerUnreachable,
    SignInRefused,
    Unavailable,
)
from costguard_client import Client
from costguard_client.mcp.confirming import Pending
from costguard_client.mcp.marking import Words, answer_text

# They become parts of a path, so nothing that a path could mean is let in.
ProjectId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9.:-]{0,61}[a-z0-9]$", description="The project's id.")]
GceId = Annotated[
    str,
    Field(
        pattern=r"^(?:(?:tpu\.)?[0-9]{1,20}|vertex\.[A-Za-z]+(?:\.[A-Za-z0-9_-]{1,128}){2,3})$",
        description="The id of the VM or other resource, as the fleet shows it: names are reused.",
    ),
]
JobId = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]

_INSTRUCTIONS = (
    "Costguard watches the cost of a fleet of GPU VMs on Google Compute Engine. Amounts are US dollars, as exact "
    "decimals; times and days are UTC. What is null or unknown is unknown, never zero. " + Words.NOTE
)
# The first that fits. SignInRefused is a kind of Forbidden.
_SAID: tuple[tuple[type[Exception], Words], ...] = (
    (SignInRefused, Words.SIGN_IN),
    (Forbidden, Words.FORBIDDEN),
    (Missing, Words.MISSING),
    (Conflict, Words.CONFLICT),
    (Invalid, Words.INVALID),
    (Unavailable, Words.UNAVAILABLE),
    (ServerUnreachable, Words.UNREACHABLE),
    (ValidationError, Words.INVALID),
)


class GuardServer(MCPServer[Any]):
    """Offers tools over one Costguard server, with one token's permissions."""

    def __init__(self, guard: Client, seconds: Callable[[], float] = time.monotonic) -> None:
        super().__init__("costguard", version=__version__, instructions=_INSTRUCTIONS, log_level="ERROR")
        self.guard = guard
        self.pending = Pending(seconds)

    def add_tool(self, fn: Callable[..., Any], *args: Any, **options: Any) -> None:
        """Adds a tool whose results are all marked: no tool answers in another way."""
        super().add_tool(_marking(fn), *args, **{**options, "structured_output": False})

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Calls a tool as the base class does; an error becomes a marked answer."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            return _refusal(error.__cause__ or error)


def guard_of(context: Context[Any, Any]) -> GuardServer:
    server = context.mcp_server
    assert isinstance(server, GuardServer)  # the only one that these tools are offered by
    return server


def _marking(function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def answer_later(*args: Any, **named: Any) -> str:
            return answer_text(await function(*args, **named))

        return answer_later

    @functools.wraps(function)
    def answer(*args: Any, **named: Any) -> str:
        return answer_text(function(*args, **named))

    return answer


def _refusal(error: BaseException) -> CallToolResult:
    problem: dict[str, Any] = {"error": next((said for kind, said in _SAID if isinstance(error, kind)), Words.ERROR)}
    if isinstance(error, CostguardError):
        problem |= {"said": error.message, "next": error.what_next}
        problem["fields"] = [{"where": where, "message": message} for where, message in error.fields]
    elif isinstance(error, ValidationError):
        problem["fields"] = [
            {"where": ".".join(str(part) for part in one["loc"]), "message": one["msg"]} for one in error.errors()
        ]
    elif isinstance(error, ToolError):
        problem["said"] = str(error)
    return CallToolResult(content=[TextContent(type="text", text=answer_text(problem))], is_error=True)
