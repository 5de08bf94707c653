"""The page Executions: what executions of workflows cost, by the labels of their jobs and VMs."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.ledger.accrual import accrual_at
from costguard.pages.page import Given, page_router
from costguard.pages.query import LONGEST
from costguard.spend.workflows.executions import Execution, ExecutionName, executions
from costguard.web.memo import memo_of

_SHOWN = 100

router = page_router()


@router.get("/executions")
def show_executions(request: Request, pages: Given) -> HTMLResponse:
    """Shows the latest executions, or the one that the address names."""
    source, now = pages.source, pages.source.clock.now()
    label, value = (request.query_params.get(name, "")[:LONGEST].replace("\x00", "") for name in ("label", "value"))
    only = ExecutionName(label, value) if label and value else None
    labels = source.rules.workflow_labels

    def read() -> tuple[list[Execution], int]:
        with source.database.read() as connection:
            return executions(connection, accrual_at(connection, now), labels, _SHOWN, only)

    as_of, (shown, count) = memo_of(request).once(("executions", only), lambda: (now, read()))
    return pages.renderer.page(
        request, "executions.html", as_of, executions=shown, count=count, labels=labels, only=only
    )
