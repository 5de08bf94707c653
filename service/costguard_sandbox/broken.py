"""Answers that never come."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response


async def broken(request: Request) -> Response:
    """The connection ends without one byte of an answer."""
    cycle = getattr(request.receive, "__self__", None)  # ASGI has no word for it; uvicorn's own object does
    transport = getattr(cycle, "transport", None)
    if transport is not None:
        transport.abort()
        await asyncio.sleep(0)
    return Response(status_code=503)
