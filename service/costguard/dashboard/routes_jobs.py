"""The routes of jobs."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from costguard.dashboard import job, jobs
from costguard.dashboard.route import Given, PageRoute

router = APIRouter(route_class=PageRoute)


@router.get("/jobs")
def show_jobs(request: Request, board: Given) -> HTMLResponse:
    moment = board.source.clock.now()
    wanted = jobs.jobs_asked(request.query_params)
    shown = jobs.jobs_page_of(board.source, wanted, moment)
    return board.renderer.page(request, "jobs.html", moment, asked=wanted, jobs=shown)


@router.get("/jobs/{job_id}")
def show_job(request: Request, board: Given, job_id: str) -> HTMLResponse:
    moment = board.source.clock.now()
    return board.renderer.page(request, "job.html", moment, view=job.job_page(board.source, job_id, moment))
