"""The pages Schedules: all of them, and one with its last runs, which can be paused, resumed, run and ended there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from costguard.db.named import RowFilters
from costguard.errors import Missing
from costguard.ledger.accrual import accrual_at
from costguard.model.access import Permission
from costguard.pages.page import Form, Given, Source, actor_of, change_refusal, page_router, redirect
from costguard.pages.query import place_before, texts
from costguard.pages.show import link
from costguard.schedules import listing
from costguard.schedules.listing import ScheduleOverview, ScheduleRow
from costguard.schedules.submit import available_schedules
from costguard.web.memo import memo_of
from costguard.web.permissions import Asker

_PAGE_SIZE = 50

router = page_router()
acting_router = page_router(Permission.JOBS)


@dataclass(frozen=True, slots=True)
class SchedulesPage:
    rows: Sequence[ScheduleRow]
    next_address: str


@router.get("/schedules")
def show_schedules(request: Request, pages: Given) -> HTMLResponse:
    before = place_before(texts(request.query_params, "/schedules").get("before", ""), "schedules", "/schedules")
    source = pages.source

    def gather() -> tuple[datetime, SchedulesPage]:
        now = source.clock.now()
        with source.database.read() as connection:
            accrual = accrual_at(connection, now)
            rows = listing.schedules_page(connection, accrual, RowFilters(), before, _PAGE_SIZE + 1)
        shown, following = rows[:_PAGE_SIZE], ""
        if len(rows) > _PAGE_SIZE:
            last = shown[-1].schedule
            following = link("/schedules", before=f"{last.created_at.isoformat()} {last.id}")
        return now, SchedulesPage(shown, following)

    as_of, page = memo_of(request).once(("schedules", before), gather)
    return pages.renderer.shared_page(request, "schedules.html", as_of, before, view=page)


@router.get("/schedules/{schedule_id}")
def show_schedule(request: Request, pages: Given, me: Asker, schedule_id: str) -> HTMLResponse:
    def gather() -> tuple[datetime, ScheduleOverview]:
        now = pages.source.clock.now()
        return now, _overview(pages.source, schedule_id, now)

    as_of, page = memo_of(request).once(("schedule", schedule_id), gather)
    schedule = page.row.schedule
    refusal = change_refusal(pages.source.rules, me, "schedules", schedule.owner, schedule.project)
    return pages.renderer.shared_page(
        request, "schedule.html", as_of, (schedule_id, refusal), view=page, refusal=refusal
    )


@acting_router.post("/schedules/{schedule_id}/pause")
def pause_schedule(pages: Given, me: Asker, form: Form, schedule_id: str) -> Response:
    schedule, _ = available_schedules(pages.source.schedules).pause(schedule_id, actor_of(me, form))
    return redirect(f"/schedules/{schedule.id}")


@acting_router.post("/schedules/{schedule_id}/resume")
def resume_schedule(pages: Given, me: Asker, form: Form, schedule_id: str) -> Response:
    schedule, _ = available_schedules(pages.source.schedules).resume(schedule_id, actor_of(me, form))
    return redirect(f"/schedules/{schedule.id}")


@acting_router.post("/schedules/{schedule_id}/run")
def run_schedule(pages: Given, me: Asker, form: Form, schedule_id: str) -> Response:
    run = available_schedules(pages.source.schedules).run_now(schedule_id, actor_of(me, form))
    return redirect(f"/schedules/{run.schedule_id}")


@acting_router.post("/schedules/{schedule_id}/end")
def end_schedule(pages: Given, me: Asker, form: Form, schedule_id: str) -> Response:
    schedule, _ = available_schedules(pages.source.schedules).end(schedule_id, actor_of(me, form))
    return redirect(f"/schedules/{schedule.id}")


def _overview(source: Source, schedule_id: str, now: datetime) -> ScheduleOverview:
    with source.database.read() as connection:
        overview = listing.schedule_detail(connection, accrual_at(connection, now), schedule_id)
    if overview is None:
        raise Missing(f"There is no schedule {schedule_id[:40]}.", "The page Schedules lists all of them.")
    return overview
