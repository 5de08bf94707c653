"""The page of a job's whole output: part by part, searched, and downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.jobs.listing.output import OutputPage
from costguard.jobs.listing.output_source import OutputSource, opened, output_page, output_source
from costguard.pages.page import Given, page_router
from costguard.pages.query import texts
from costguard.pages.show import link

_LINES = 500

router = page_router()


@dataclass(frozen=True, slots=True)
class OutputView:
    """Addresses are empty where they lead nowhere. `numbers` are those of the attempts that reported."""

    source: OutputSource
    page: OutputPage
    numbers: Sequence[int]
    search: str
    begins: bool  # from the beginning
    first: str
    following: str
    download: str


@router.get("/jobs/{job_id}/output")
def show_output(request: Request, pages: Given, job_id: str) -> HTMLResponse:
    """Five hundred lines, from the beginning or from where the last part ended."""
    here = f"/jobs/{job_id}/output"
    given = texts(request.query_params, here)
    number = int(given["attempt"]) if given.get("attempt", "").isdecimal() else None
    search, begin = given.get("search", ""), given.get("begin", "")
    source = output_source(pages.source.database, pages.source.rules.jobs.logs, job_id, number)
    page = output_page(opened(source, pages.source.output), begin, search, _LINES)
    attempt = source.attempt.number if source.attempt is not None else 0
    view = OutputView(
        source=source,
        page=page,
        numbers=[one.number for one in source.attempts if one.agent.at is not None],
        search=search,
        begins=begin in ("", "start"),
        first=link(here, attempt=attempt, search=search),
        following="" if page.is_end else link(here, attempt=attempt, search=search, begin=str(page.next)),
        download=link(f"/api/v1{here}/text", attempt=attempt),
    )
    as_of: datetime = pages.source.clock.now()
    return pages.renderer.page(request, "output.html", as_of, view=view)
