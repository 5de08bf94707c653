"""What the routes of all pages share: what they are made from, who asks, and how trouble is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from costguard import errors
from costguard.errors import CostguardError
from costguard.pages.asked import BadAddress
from costguard.pages.render import Renderer
from costguard.pages.source import Source
from costguard.web.problems import ProblemError


@dataclass(frozen=True, slots=True)
class Dashboard:
    source: Source
    renderer: Renderer


async def _given(request: Request) -> Dashboard:
    return dashboard_of(request)


def dashboard_of(request: Request) -> Dashboard:
    found: Dashboard = request.app.state.dashboard
    return found


Given = Annotated[Dashboard, Depends(_given)]


# The first that fits, so that kinds stand before those that hold them.
_STATUS: tuple[tuple[type[CostguardError], HTTPStatus], ...] = (
    (errors.StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.VmUnknown, HTTPStatus.NOT_FOUND),
    (errors.JobUnknown, HTTPStatus.NOT_FOUND),
    (errors.TokenUnknown, HTTPStatus.NOT_FOUND),
    (errors.SessionUnknown, HTTPStatus.NOT_FOUND),
    (errors.VmNotTheirs, HTTPStatus.FORBIDDEN),
    (errors.JobNotTheirs, HTTPStatus.FORBIDDEN),
    (errors.ActorError, HTTPStatus.FORBIDDEN),
    (errors.VmNotAsSeen, HTTPStatus.CONFLICT),
    (errors.AskKeyTaken, HTTPStatus.CONFLICT),
    (errors.JobKeyTaken, HTTPStatus.CONFLICT),
    (errors.JobIsOver, HTTPStatus.CONFLICT),
    (errors.TokenKeyTaken, HTTPStatus.CONFLICT),
    (errors.AskError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.JobError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.TokenRefused, HTTPStatus.UNPROCESSABLE_ENTITY),
)
_OURS = HTTPStatus.INTERNAL_SERVER_ERROR


class PageRoute(APIRoute):
    """What goes wrong is told on a page too, in the words that the API would use."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        handle = super().get_route_handler()

        async def handle_told(request: Request) -> Response:
            try:
                return await handle(request)
            except BadAddress as error:
                return _trouble(request, error.status, error.message, error.what_next)
            except ProblemError as error:
                return _trouble(request, error.status, error.detail, error.what_next)
            except CostguardError as error:
                status = next((status for kind, status in _STATUS if isinstance(error, kind)), _OURS)
                return _trouble(request, status, error.message, error.what_next or "The server's log says more.")

        return handle_told


def _trouble(request: Request, status: HTTPStatus, message: str, what_next: str) -> Response:
    board = dashboard_of(request)
    moment = board.source.clock.now()
    return board.renderer.page(
        request, "error.html", moment, status, title=status.phrase, message=message, what_next=what_next
    )
