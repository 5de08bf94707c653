"""Forms that pages send. Whether a page of ours sent them was proved before anything here is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import Depends, Request


async def _fields(request: Request) -> Sequence[tuple[str, str]]:
    return [(name, value) for name, value in (await request.form()).multi_items() if isinstance(value, str)]


Fields = Annotated[Sequence[tuple[str, str]], Depends(_fields)]  # in their order; files are none of ours


def _form(fields: Fields) -> Mapping[str, str]:
    return dict(fields)


Form = Annotated[Mapping[str, str], Depends(_form)]  # of a name that comes several times the last counts


def is_in_place(request: Request) -> bool:
    """Whether the answer replaces a part of the page, rather than the page."""
    return "hx-request" in request.headers
