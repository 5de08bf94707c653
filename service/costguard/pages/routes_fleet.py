"""The routes of Now, of one VM, and of what is asked of it."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from costguard.messages.slack_health import slack_health
from costguard.model.access import Permission
from costguard.pages import acting, asked, now, vm
from costguard.pages.asked import key_of
from costguard.pages.forms import Form, is_in_place
from costguard.pages.route import Given, PageRoute
from costguard.pages.rows import offered
from costguard.pages.show import vm_link
from costguard.web.memo import memo_of
from costguard.web.who import Asker, needs

router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.READ)])
acting_router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.INSTANCES)])


@router.get("/")
def show_now(request: Request, board: Given, me: Asker) -> HTMLResponse:
    wanted, source = asked.fleet_asked(request.query_params), board.source

    def gather() -> dict[str, Any]:
        moment = source.clock.now()
        slack = slack_health(source.outbox_trouble(), source.socket_trouble(), moment, source.stale_after)
        shown = now.now_page(source, wanted, moment)
        return {"as_of": moment, "now": shown, "daemon": source.status(), "slack": slack}

    given = memo_of(request).once(("now", wanted), gather)
    rows = offered(given["now"].rows, source.rules, me, given["as_of"])
    return board.renderer.shared_page(
        request,
        "now.html",
        depends_on=(wanted, tuple(row.offers for row in rows)),
        asked=wanted,
        **{**given, "now": replace(given["now"], rows=rows)},
    )


@router.get("/vm/{project}/{gce_id}")
def show_vm(request: Request, board: Given, me: Asker, project: str, gce_id: str) -> HTMLResponse:
    key, source = key_of(project, gce_id), board.source

    def gather() -> tuple[datetime, vm.Vm]:
        moment = source.clock.now()
        return moment, vm.vm_page(source, key, moment)

    moment, shown = memo_of(request).once(("vm", key), gather)
    (row,) = offered([shown.row], source.rules, me, moment)
    depends_on = (key, row.offers)
    return board.renderer.shared_page(request, "vm.html", moment, depends_on, vm=replace(shown, row=row))


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
