"""The page Loose: what bills and nothing uses. It has no button that removes any of it: Costguard removes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.ledger import projects
from costguard.pages import query
from costguard.pages.page import Given, Source, page_router
from costguard.spend.loose.report import METHOD, AlikeProjects, LooseReport, UnknownWhy, alike, prices_of

LISTED = 100

router = page_router()


@dataclass(frozen=True, slots=True)
class LoosePage:
    """`unread` and `unknown` have a row for all projects that are not read for one reason."""

    report: LooseReport
    unread: Sequence[AlikeProjects]
    unknown: Sequence[AlikeProjects]
    not_asked: int
    watched: Sequence[str]
    project: str | None  # the one that is shown; None: all


@router.get("/loose")
def show_loose(request: Request, pages: Given) -> HTMLResponse:
    """Shows what is remembered; with `fresh` in the address Google is asked first, which takes some seconds."""
    source = pages.source
    page = _page(source, query.texts(request.query_params, "/loose"))
    as_of = source.clock.now()
    return pages.renderer.page(request, "loose.html", as_of, page=page, method=METHOD, listed=LISTED)


def _page(source: Source, address: Mapping[str, str]) -> LoosePage | None:
    """Returns None where this server asks nobody."""
    if source.loose is None:
        return None
    project = address.get("project")
    if "fresh" in address:
        source.loose.refresh(project)
    report = source.loose.report(prices_of(source.database), project)
    with source.database.read() as connection:
        watched = [look.project for look in projects.read_all(connection)]
    tried = [one for one in report.unknown if one.why is not UnknownWhy.NOT_ASKED]
    not_asked = len(report.unknown) - len(tried)
    return LoosePage(report, alike(report.unread), alike(tried), not_asked, watched, project)
