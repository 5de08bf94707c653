"""The page Bill: the ledger against Google's bill, a line a day, and why they differ."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.bill.commit_report import CommitmentReport, commitment_report
from costguard.bill.commit_words import PartKind
from costguard.bill.lines import Reason
from costguard.bill.report import BillReport, bill_report
from costguard.pages.page import Given, page_router
from costguard.pages.show import link
from costguard.pages.spend import spend_query
from costguard.web.memo import memo_of

_ADVICE_DAYS = 90
_ADVICE_SHOWN = 10
_NAMES = {
    Reason.MISSING: "not billed",
    Reason.UNKNOWN_VM: "unknown VM",
    Reason.UNKNOWN_PART: "unknown part",
    Reason.OTHER_SKU: "other SKU",
    Reason.MORE: "more billed",
    Reason.LESS: "less billed",
    Reason.REPEATED: "rows twice",
    Reason.PRICE: "price",
    Reason.CURRENCY_RATE: "currency rate",
    Reason.CREDIT: "credit",
    Reason.OTHER_PROJECT: "other project",
    Reason.GPU_AND_HOST: "GPU and host",
    Reason.DISK_HOURS: "disk hours",
    Reason.SHARED_DISK: "shared disk",
    Reason.UNKNOWN_DISK: "unattached disk",
    Reason.NOT_WATCHED: "not watched",
    Reason.UNPRICED: "no price",
    Reason.VERTEX: "Vertex AI",
}
_PARTS = {PartKind.HOST: "vCPUs and memory", PartKind.GPU: "GPUs", PartKind.SSD: "local SSD"}

router = page_router()


@router.get("/bill")
def show_bill(request: Request, pages: Given) -> HTMLResponse:
    source = pages.source
    now = source.clock.now()
    wanted = spend_query(request.query_params, now.date())

    def read() -> tuple[BillReport, CommitmentReport]:
        with source.database.read() as connection:
            report = bill_report(connection, wanted.first, wanted.last, wanted.project)
            return report, commitment_report(connection, now, _ADVICE_DAYS)

    question = ("bill", wanted.first, wanted.last, wanted.project)
    as_of, (report, commit) = memo_of(request).once(question, lambda: (now, read()))
    spend_page = link("/spend", **{"from": wanted.first.isoformat(), "to": wanted.last.isoformat()})
    return pages.renderer.page(
        request,
        "bill.html",
        as_of,
        query=wanted,
        bill=report,
        commit=commit,
        advice=commit.advice[:_ADVICE_SHOWN],
        cover=commit.cover,
        parts=_PARTS,
        reasons=_NAMES,
        spend_page=spend_page,
    )
