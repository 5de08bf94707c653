"""The pages Sweeps: all of them, and one with its members, which can be cancelled and resumed there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from costguard.db.named import RowFilters
from costguard.errors import Invalid, Missing
from costguard.ledger.accrual import accrual_at
from costguard.model.access import Permission
from costguard.model.money import Money
from costguard.pages.page import Form, Given, Source, actor_of, change_refusal, page_router, redirect
from costguard.pages.query import place_before, texts
from costguard.pages.show import link
from costguard.sweeps import listing
from costguard.sweeps.listing import SweepOverview, SweepRow
from costguard.sweeps.submit import available_sweeps
from costguard.web.memo import memo_of
from costguard.web.permissions import Asker

_PAGE_SIZE = 50
_LONGEST_REASON = 500
_LONGEST_NUMBER = 5  # digits

router = page_router()
acting_router = page_router(Permission.JOBS)


@dataclass(frozen=True, slots=True)
class SweepsPage:
    rows: Sequence[SweepRow]
    next_address: str
    can_launch: bool


@router.get("/sweeps")
def show_sweeps(request: Request, pages: Given) -> HTMLResponse:
    before = place_before(texts(request.query_params, "/sweeps").get("before", ""), "sweeps", "/sweeps")
    source = pages.source

    def gather() -> tuple[datetime, SweepsPage]:
        now = source.clock.now()
        with source.database.read() as connection:
            rows = listing.sweeps_page(connection, accrual_at(connection, now), RowFilters(), before, _PAGE_SIZE + 1)
        shown, following = rows[:_PAGE_SIZE], ""
        if len(rows) > _PAGE_SIZE:
            last = shown[-1].sweep
            following = link("/sweeps", before=f"{last.created_at.isoformat()} {last.id}")
        return now, SweepsPage(shown, following, source.sweeps is not None)

    as_of, page = memo_of(request).once(("sweeps", before), gather)
    return pages.renderer.shared_page(request, "sweeps.html", as_of, before, view=page)


@router.get("/sweeps/{sweep_id}")
def show_sweep(request: Request, pages: Given, me: Asker, sweep_id: str) -> HTMLResponse:
    def gather() -> tuple[datetime, SweepOverview]:
        now = pages.source.clock.now()
        return now, _overview(pages.source, sweep_id, now)

    as_of, page = memo_of(request).once(("sweep", sweep_id), gather)
    sweep = page.row.sweep
    refusal = change_refusal(pages.source.rules, me, "sweeps", sweep.owner, sweep.project)
    values = {
        "refusal": refusal,
        "can_cancel": not refusal and not page.row.sweep.state.is_over and page.row.sweep.cancel_asked_at is None,
        "can_resume": not refusal and _is_resumable(page.row),
        "can_keep": not refusal and page.row.sweep.halves,
    }
    return pages.renderer.shared_page(request, "sweep.html", as_of, (sweep_id, *values.values()), view=page, **values)


@acting_router.post("/sweeps/{sweep_id}/cancel")
def cancel_sweep(pages: Given, me: Asker, form: Form, sweep_id: str) -> Response:
    by = actor_of(me, form)
    reason = form.get("reason", "").strip()[:_LONGEST_REASON]
    sweep, _ = available_sweeps(pages.source.sweeps).cancel(sweep_id, by.address, reason, by.authority)
    return redirect(f"/sweeps/{sweep.id}")


@acting_router.post("/sweeps/{sweep_id}/resume")
def resume_sweep(pages: Given, me: Asker, form: Form, sweep_id: str) -> Response:
    by = actor_of(me, form)
    sweep, _ = available_sweeps(pages.source.sweeps).resume(
        sweep_id, by.address, ceiling=_ceiling(form), authority=by.authority
    )
    return redirect(f"/sweeps/{sweep.id}")


@acting_router.post("/sweeps/{sweep_id}/keep")
def keep_members(pages: Given, me: Asker, form: Form, sweep_id: str) -> Response:
    """Keeps the chosen member from halving; without one ends halving."""
    by = actor_of(me, form)
    chosen = form.get("member", "")
    numbers = [int(chosen)] if chosen.isascii() and chosen.isdigit() and len(chosen) < _LONGEST_NUMBER else []
    if chosen and not numbers:
        raise Invalid(f"{chosen[:40]!r} is no number of a member.", "Choose one of the list.")
    sweep, _ = available_sweeps(pages.source.sweeps).keep(sweep_id, by.address, numbers, by.authority)
    return redirect(f"/sweeps/{sweep.id}")


def _overview(source: Source, sweep_id: str, now: datetime) -> SweepOverview:
    with source.database.read() as connection:
        overview = listing.sweep_detail(connection, accrual_at(connection, now), sweep_id)
    if overview is None:
        raise Missing(f"There is no sweep {sweep_id[:40]}.", "The page Sweeps lists all of them.")
    return overview


def _is_resumable(row: SweepRow) -> bool:
    is_left = bool(row.failed or (row.sweep.state.is_over and row.succeeded < row.members))
    return is_left and (row.sweep.cancel_asked_at is None or row.sweep.state.is_over)


def _ceiling(form: Mapping[str, str]) -> Money | None:
    """Reads the typed ceiling; None where none was typed."""
    typed = form.get("ceiling", "").strip().removeprefix("$")
    if not typed:
        return None
    try:
        return Money.of(typed)
    except (ArithmeticError, ValueError):
        raise Invalid(f"{typed[:40]!r} is no amount of dollars.", "Write one such as 200 or 12.50.") from None
