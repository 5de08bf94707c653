"""The routes of Now and of one VM."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from costguard.dashboard import asked, now, vm
from costguard.dashboard.route import Given, PageRoute
from costguard.engine.telling.slack_health import slack_health
from costguard.model.instance import InstanceKey

router = APIRouter(route_class=PageRoute)


@router.get("/")
def show_now(request: Request, board: Given) -> HTMLResponse:
    wanted = asked.fleet_asked(request.query_params)
    moment = board.source.clock.now()
    shown = now.now_page(board.source, wanted, moment)
    source = board.source
    slack = slack_health(source.outbox_trouble(), source.socket_trouble(), moment, source.stale_after)
    return board.renderer.page(
        request, "now.html", moment, asked=wanted, now=shown, daemon=source.status(), slack=slack
    )


@router.get("/vm/{project}/{gce_id}")
def show_vm(request: Request, board: Given, project: str, gce_id: str) -> HTMLResponse:
    moment = board.source.clock.now()
    shown = vm.vm_page(board.source, InstanceKey(project, gce_id), moment)
    return board.renderer.page(request, "vm.html", moment, vm=shown)
