"""The real client of the official SDK: over standard input and output with `costguard mcp`, or within this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import anyio
from mcp_types import CallToolResult, TextContent

from costguard_client.mcp.server import GuardServer
from mcp import Client, StdioServerParameters

T = TypeVar("T")
_COMMAND = ["-c", "from costguard.cli.entry import main; main()", "mcp"]


def over_stdio(url: str, token: str) -> StdioServerParameters:
    """The command as clients start it; everything it needs is in its environment."""
    environment = {"COSTGUARD_URL": url, "COSTGUARD_TOKEN": token, "PYTHONPATH": ":".join(filter(None, sys.path))}
    return StdioServerParameters(command=sys.executable, args=_COMMAND, env=environment)


def talk(
    server: GuardServer | StdioServerParameters, conversation: Callable[[Client], Awaitable[T]], **options: Any
) -> T:
    """Talks in a thread of its own: a browser of other tests leaves a running event loop in this one."""

    async def whole() -> T:
        connecting: AbstractAsyncContextManager[Client] = Client(server, **options)
        async with connecting as client:
            return await conversation(client)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, whole).result()


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


def answer_of(result: CallToolResult) -> Any:
    """The answer with its marks."""
    return json.loads(text_of(result))["answer"]


def plain(value: Any) -> Any:
    """The answer without marks, as a person reads it."""
    if isinstance(value, dict):
        if set(value) == {"text_by_others"}:
            return value["text_by_others"]
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list) else value


def unmarked(value: Any) -> list[str]:
    """Every text outside marks, names of fields included: what a careful reader takes for Costguard's own words."""
    if isinstance(value, dict):
        if set(value) == {"text_by_others"}:
            return []
        return [text for name, part in value.items() for text in [name, *unmarked(part)]]
    if isinstance(value, list):
        return [text for part in value for text in unmarked(part)]
    return [value] if isinstance(value, str) else []
