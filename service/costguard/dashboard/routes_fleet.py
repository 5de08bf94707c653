"""The routes of Now, of one VM, and of what is asked of it."""

from __future__ import annotations

import secrets
from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from costguard.dashboard import acting, asked, now, vm
from costguard.dashboard.asked import key_of
from costguard.dashboard.forms import Form, is_in_place
from costguard.dashboard.route import Given, PageRoute
from costguard.dashboard.show import vm_link
from costguard.engine.telling.slack_health import slack_health
from costguard.model.access import Permission
from costguard.web.who import Asker, needs

router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.READ)])
acting_router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.INSTANCES)])


@router.get("/")
def show_now(request: Request, board: Given, me: Asker) -> HTMLResponse:
    wanted = asked.fleet_asked(request.query_params)
    moment = board.source.clock.now()
    shown = now.now_page(board.source, wanted, moment, me)
    source = board.source
    slack = slack_health(source.outbox_trouble(), source.socket_trouble(), moment, source.stale_after)
    return board.renderer.page(
        request, "now.html", moment, asked=wanted, now=shown, daemon=source.status(), slack=slack
    )


@router.get("/vm/{project}/{gce_id}")
def show_vm(request: Request, board: Given, me: Asker, project: str, gce_id: str) -> HTMLResponse:
    moment = board.source.clock.now()
    shown = vm.vm_page(board.source, key_of(project, gce_id), moment, me)
    return board.renderer.page(request, "vm.html", moment, vm=shown)


@router.get("/vm/{project}/{gce_id}/{wish}")
def ask_first(request: Request, board: Given, me: Asker, project: str, gce_id: str, wish: str) -> HTMLResponse:
    moment = board.source.clock.now()
    form = secrets.token_urlsafe(12)
    found = acting.question(board.source, me, key_of(project, gce_id), wish, moment, form)
    return board.renderer.page(request, "ask.html", moment, question=found)


@acting_router.post("/vm/{project}/{gce_id}/{wish}")
def ask(request: Request, board: Given, me: Asker, form: Form, project: str, gce_id: str, wish: str) -> Response:
    """Without JavaScript the VM's own page tells what waits now."""
    key = key_of(project, gce_id)
    outcome = acting.answer(board.source, me, key, wish, form)
    if is_in_place(request):
        told = board.renderer.page(request, "_notice.html", board.source.clock.now(), text=outcome.text)
        told.headers["HX-Trigger"] = "asked"
        return told
    return RedirectResponse(vm_link(key), HTTPStatus.SEE_OTHER)
