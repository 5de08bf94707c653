"""Forms that pages send. Whether a page of ours sent them was proved before anything here is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Request


async def _fields(request: Request) -> Mapping[str, str]:
    """Files are none of ours. Of a name that comes several times the last counts."""
    return {name: value for name, value in (await request.form()).multi_items() if isinstance(value, str)}


Form = Annotated[Mapping[str, str], Depends(_fields)]


def is_in_place(request: Request) -> bool:
    """Whether the answer replaces a part of the page, rather than the page."""
    return "hx-request" in request.headers
