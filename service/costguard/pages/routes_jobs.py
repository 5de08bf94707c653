"""The routes of jobs, and of cancelling one."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from costguard.model.access import Permission
from costguard.pages import cancelling, job, jobs
from costguard.pages.forms import Form, is_in_place
from costguard.pages.route import Given, PageRoute
from costguard.pages.show import job_link
from costguard.web.memo import memo_of
from costguard.web.who import Asker, needs

router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.READ)])
acting_router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.JOBS)])


@router.get("/jobs")
def show_jobs(request: Request, board: Given, me: Asker) -> HTMLResponse:
    wanted, source = jobs.jobs_asked(request.query_params), board.source

    def gather() -> tuple[datetime, jobs.Jobs]:
        moment = source.clock.now()
        return moment, jobs.jobs_page_of(source, wanted, moment)

    moment, found = memo_of(request).once(("jobs", wanted), gather)
    shown = jobs.offered(found, source.rules, me)
    depends_on = (wanted, tuple(line.offer for line in shown.lines))
    return board.renderer.shared_page(request, "jobs.html", moment, depends_on, asked=wanted, jobs=shown)


@router.get("/jobs/{job_id}")
def show_job(request: Request, board: Given, me: Asker, job_id: str) -> HTMLResponse:
    def gather() -> tuple[datetime, job.JobView]:
        moment = board.source.clock.now()
        return moment, job.job_page(board.source, job_id, moment)

    moment, shown = memo_of(request).once(("job", job_id), gather)
    offer = cancelling.offer(board.source.rules, me, shown.job)
    keeps, may = cancelling.keeps_disk(shown.job), cancelling.may_delete_disk(board.source.rules, me, shown.job)
    given = {"offer": offer, "keeps_disk": keeps, "may_delete_disk": may}
    return board.renderer.shared_page(request, "job.html", moment, (job_id, *given.values()), view=shown, **given)


@router.get("/jobs/{job_id}/cancel")
def ask_first(request: Request, board: Given, me: Asker, job_id: str) -> HTMLResponse:
    moment = board.source.clock.now()
    shown = job.job_page(board.source, job_id, moment)
    offer = cancelling.offer(board.source.rules, me, shown.job)
    happens = cancelling.what_happens(shown.job)
    loses = cancelling.loses(shown.job, shown.checkpoint)
    return board.renderer.page(request, "cancel.html", moment, view=shown, offer=offer, happens=happens, loses=loses)


@acting_router.post("/jobs/{job_id}/cancel")
def cancel(request: Request, board: Given, me: Asker, form: Form, job_id: str) -> Response:
    """Without JavaScript the job's own page tells what was asked."""
    text = cancelling.cancelled(board.source, me, job_id, form)
    if is_in_place(request):
        told = board.renderer.page(request, "_notice.html", board.source.clock.now(), text=text)
        told.headers["HX-Trigger"] = "asked"
        return told
    return RedirectResponse(job_link(job_id), HTTPStatus.SEE_OTHER)


@acting_router.post("/jobs/{job_id}/delete-disk")
def delete_disk(board: Given, me: Asker, form: Form, job_id: str) -> Response:
    """The job's own page shows that it is done."""
    cancelling.disk_deleted(board.source, me, job_id, form)
    return RedirectResponse(job_link(job_id), HTTPStatus.SEE_OTHER)
