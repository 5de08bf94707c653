"""The routes of the audit log."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, StreamingResponse

from costguard.model.access import Permission
from costguard.pages import facts
from costguard.pages.render import HEADERS
from costguard.pages.route import Given, PageRoute
from costguard.web.who import needs

router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.READ)])


@router.get("/facts")
def show_facts(request: Request, board: Given) -> HTMLResponse:
    wanted = facts.facts_asked(request.query_params)
    shown = facts.facts_page(board.source, wanted)
    return board.renderer.page(request, "facts.html", board.source.clock.now(), asked=wanted, facts=shown)


@router.get("/facts.csv")
def facts_csv(request: Request, board: Given) -> StreamingResponse:
    return _file(facts.csv_text(board.source, facts.facts_asked(request.query_params)), "text/csv", "facts.csv")


@router.get("/facts.json")
def facts_json(request: Request, board: Given) -> StreamingResponse:
    return _file(
        facts.json_text(board.source, facts.facts_asked(request.query_params)), "application/json", "facts.json"
    )


def _file(text: Iterator[str], kind: str, name: str) -> StreamingResponse:
    headers = {
        **HEADERS,
        "Content-Disposition": f'attachment; filename="costguard-{name}"',
        "Cache-Control": "no-store",
    }
    return StreamingResponse(text, media_type=f"{kind}; charset=utf-8", headers=headers)
