"""The routes of launching a job: the form, the quote of what is in it, and the launch itself."""

from __future__ import annotations

import secrets
from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from costguard.model.access import Permission
from costguard.pages import launch, launch_form
from costguard.pages.forms import Form
from costguard.pages.launch import Launch
from costguard.pages.route import Given, PageRoute
from costguard.pages.show import job_link
from costguard.web.who import Asker, needs

# A quote looks at what lies at a location, with the guard's own credentials.
router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.JOBS)])


@router.get("/launch")
def show_launch(request: Request, board: Given, me: Asker) -> HTMLResponse:
    launch.office(board.source)
    shown = launch.first_shown(board.source, me, request.query_params, _new_key())
    return board.renderer.page(request, "launch.html", board.source.clock.now(), launch=shown)


@router.post("/launch/quote")
def quote_launch(request: Request, board: Given, me: Asker, form: Form) -> HTMLResponse:
    """What stands beside the form, and beside each of its fields."""
    shown = launch.shown(board.source, me, launch_form.typed(form), "")
    moment = board.source.clock.now()
    return board.renderer.page(request, "launch_quote.html", moment, launch=shown, fields=launch_form.FIELDS)


@router.post("/launch")
def launch_job(request: Request, board: Given, me: Asker, form: Form) -> Response:
    """On to the job's page, or back to the form with all that is wrong beside its fields."""
    made = launch.launched(board.source, me, launch_form.typed(form), _new_key())
    if isinstance(made, Launch):
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        return board.renderer.page(request, "launch.html", board.source.clock.now(), status, launch=made)
    return RedirectResponse(job_link(made.id), HTTPStatus.SEE_OTHER)


def _new_key() -> str:
    return secrets.token_urlsafe(12)
