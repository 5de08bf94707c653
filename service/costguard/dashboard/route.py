"""What the routes of all pages share: what they are made from, who asks, and how trouble is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from costguard.dashboard.asked import BadAddress
from costguard.dashboard.render import Renderer
from costguard.dashboard.source import Source
from costguard.errors import CostguardError, StoreError


@dataclass(frozen=True, slots=True)
class Dashboard:
    source: Source
    renderer: Renderer


def _given(request: Request) -> Dashboard:
    found: Dashboard = request.app.state.dashboard
    return found


Given = Annotated[Dashboard, Depends(_given)]


class PageRoute(APIRoute):
    """What goes wrong is told on a page too, in the words that the API would use."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        handle = super().get_route_handler()

        async def handle_told(request: Request) -> Response:
            try:
                return await handle(request)
            except BadAddress as error:
                return _trouble(request, error.status, error.message, error.what_next)
            except CostguardError as error:
                is_store = isinstance(error, StoreError)
                status = HTTPStatus.SERVICE_UNAVAILABLE if is_store else HTTPStatus.INTERNAL_SERVER_ERROR
                return _trouble(request, status, error.message, error.what_next or "The server's log says more.")

        return handle_told


def _trouble(request: Request, status: HTTPStatus, message: str, what_next: str) -> Response:
    board = _given(request)
    moment = board.source.clock.now()
    return board.renderer.page(
        request, "error.html", moment, status, title=status.phrase, message=message, what_next=what_next
    )
