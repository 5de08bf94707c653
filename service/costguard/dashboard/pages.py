"""The routes for people. Each reads in one transaction and shows; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse, Response

from costguard.dashboard import asked, budgets, job, jobs, now, spend, vm
from costguard.dashboard.asked import BadAddress
from costguard.dashboard.render import Renderer
from costguard.dashboard.source import Source
from costguard.engine.telling.slack_health import slack_health
from costguard.errors import CostguardError, StoreError
from costguard.model.instance import InstanceKey


@dataclass(frozen=True, slots=True)
class Dashboard:
    source: Source
    renderer: Renderer


class _PageRoute(APIRoute):
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


router = APIRouter(route_class=_PageRoute)


def _given(request: Request) -> Dashboard:
    found: Dashboard = request.app.state.dashboard
    return found


Given = Annotated[Dashboard, Depends(_given)]


@router.get("/")
def show_now(request: Request, board: Given) -> HTMLResponse:
    wanted = asked.fleet_asked(request.query_params)
    moment = board.source.clock.now()
    shown = now.now_page(board.source, wanted, moment)
    source = board.source
    slack = slack_health(source.outbox_trouble(), source.socket_trouble(), moment, source.stale_after)
    return board.renderer.page("now.html", moment, asked=wanted, now=shown, daemon=source.status(), slack=slack)


@router.get("/vm/{project}/{gce_id}")
def show_vm(board: Given, project: str, gce_id: str) -> HTMLResponse:
    moment = board.source.clock.now()
    shown = vm.vm_page(board.source, InstanceKey(project, gce_id), moment)
    return board.renderer.page("vm.html", moment, vm=shown)


@router.get("/jobs")
def show_jobs(request: Request, board: Given) -> HTMLResponse:
    moment = board.source.clock.now()
    wanted = jobs.jobs_asked(request.query_params)
    return board.renderer.page("jobs.html", moment, asked=wanted, jobs=jobs.jobs_page_of(board.source, wanted, moment))


@router.get("/jobs/{job_id}")
def show_job(board: Given, job_id: str) -> HTMLResponse:
    moment = board.source.clock.now()
    return board.renderer.page("job.html", moment, view=job.job_page(board.source, job_id, moment))


@router.get("/spend")
def show_spend(request: Request, board: Given) -> HTMLResponse:
    moment = board.source.clock.now()
    wanted = spend.spend_asked(request.query_params, moment.date())
    shown = spend.spend_page(board.source, wanted, moment)
    return board.renderer.page("spend.html", moment, asked=wanted, spend=shown, groupings=spend.GROUPINGS)


@router.get("/budgets")
def show_budgets(board: Given) -> HTMLResponse:
    moment = board.source.clock.now()
    return board.renderer.page("budgets.html", moment, budgets=budgets.budgets_page(board.source, moment))


def _trouble(request: Request, status: HTTPStatus, message: str, what_next: str) -> Response:
    board = _given(request)
    moment = board.source.clock.now()
    return board.renderer.page("error.html", moment, status, title=status.phrase, message=message, what_next=what_next)
