"""The page Limits: what may be in use at once, what is, and which jobs wait in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.jobs.decide.limits.in_use import Bucket
from costguard.jobs.decide.limits.queue_words import limit_name, used_text
from costguard.jobs.listing.limits import LimitUse, limit_uses
from costguard.pages.page import Given, Source, page_router
from costguard.web.memo import memo_of

_RESOURCES = ("vms", "gpus", "dollars_per_hour")

router = page_router()


@dataclass(frozen=True, slots=True)
class LimitCard:
    """`uses` are sentences such as `8 of 8 GPUs in use`, one for each resource that the limit bounds."""

    use: LimitUse
    name: str
    scope: str
    uses: Sequence[str]


@router.get("/limits")
def show_limits(request: Request, pages: Given) -> HTMLResponse:
    now = pages.source.clock.now()
    as_of, cards = memo_of(request).once("limits", lambda: (now, _cards(pages.source, now)))
    return pages.renderer.page(request, "limits.html", as_of, cards=cards)


def _cards(source: Source, now: datetime) -> list[LimitCard]:
    with source.database.read() as connection:
        listed = limit_uses(connection, source.rules, now)
    return [
        LimitCard(
            use,
            limit_name(Bucket(use.limit.name, use.value)),
            str(use.limit.scope),
            [used_text(use.limit, use.used, name) for name in _RESOURCES if getattr(use.limit, name) is not None],
        )
        for use in listed
    ]
