"""Charges in the format of FOCUS 1.2, for finance teams: as CSV or Parquet, one row a charge."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Query as Parameter
from fastapi import Request, Response
from pydantic import Field
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, StreamingResponse

from costguard.api.deps import Given
from costguard.api.fields import DaysQuery, LabelText, Text, label_filter
from costguard.api.job_id import named_job
from costguard.api.route import routes
from costguard.api.spend import check_length
from costguard.errors import Unavailable
from costguard.ledger.charged.charges_of import ArchivePlaces
from costguard.model.budget import Scope
from costguard.model.ports import GoOn
from costguard.spend import focus_parquet
from costguard.spend.focus import COLUMNS, UNKNOWN, VERSION, focus_row, text_of
from costguard.spend.focus_rows import FocusExport
from costguard.web.questions import WhileWanted

router = routes("spend")

_LONGEST = timedelta(days=366)
_AT_ONCE = 2000  # rows of one piece of the answer
_PARQUET = "application/vnd.apache.parquet"
_FILES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A row for each charge; amounts are decimals with nine places. `X-Costguard-Unpriced` counts "
        "the lifetimes and disks without a price: they have no row.",
        "content": {"text/csv": {"schema": {"type": "string"}}, _PARQUET: {"schema": {"type": "string"}}},
    }
}


class FocusQuery(DaysQuery):
    version: Literal["1.2"] = Field(VERSION, description="The version of FOCUS.")
    project: Text | None = None
    preset: Text | None = None
    owner: Text | None = None
    job: Text | None = Field(None, description="A job, by its id or name.")
    label: LabelText | None = None
    format: Literal["csv", "parquet"] | None = Field(
        None, description="The format; default: by the Accept header, else csv."
    )


@router.get(
    "/focus",
    summary="Export charges as FOCUS",
    operation_id="exportFocus",
    response_class=StreamingResponse,
    responses=_FILES,
)
def focus(deps: Given, query: Annotated[FocusQuery, Parameter()], request: Request, go_on: WhileWanted) -> Response:
    """Every charge of a range of UTC days, with today's up to now. The costs add up to `GET /spend`.

    A charge in which a label of its VM changed has a row for each part, with the labels of that part.
    """
    now = deps.clock.now()
    first, last = query.days(now.date())
    check_length(first, last, _LONGEST)
    with deps.database.read() as connection:
        job = named_job(connection, query.job)
    scope = Scope(query.project, query.preset, query.owner, job=job, label=label_filter(query.label))
    wants_parquet = (query.format or _accepted(request)) == "parquet"
    if wants_parquet:
        _check_parquet()
    export = FocusExport(deps.database, now, first, last, scope, ArchivePlaces(deps.archive, deps.history))
    account = deps.billing_account or UNKNOWN
    rows = _while_wanted((focus_row(charged, account) for charged in export), go_on)
    ending = "parquet" if wants_parquet else "csv"
    headers = {
        "Content-Disposition": f'attachment; filename="costguard-focus-{first}-{last}.{ending}"',
        "X-Costguard-Unpriced": str(export.unpriced),
        "X-Content-Type-Options": "nosniff",
    }
    if not wants_parquet:
        lines = _csv(rows)
        head = next(lines)  # an archive that is missing is said before the answer begins
        return StreamingResponse(chain([head], lines), media_type="text/csv; charset=utf-8", headers=headers)
    number, name = tempfile.mkstemp(prefix="costguard-focus-", suffix=".parquet")
    os.close(number)
    path = Path(name)
    try:
        focus_parquet.write(rows, path)
    except BaseException:
        path.unlink()
        raise
    return FileResponse(path, media_type=_PARQUET, headers=headers, background=BackgroundTask(path.unlink))


def _while_wanted(rows: Iterator[tuple[Any, ...]], go_on: GoOn) -> Iterator[tuple[Any, ...]]:
    """A file for which nobody waits any more is not written to its end. Raises Unavailable."""
    for number, row in enumerate(rows):
        if number % _AT_ONCE == 0:
            go_on()
        yield row


def _accepted(request: Request) -> str:
    return "parquet" if request.headers.get("accept", "").startswith(_PARQUET) else "csv"


def _check_parquet() -> None:
    if not focus_parquet.is_there():
        raise Unavailable(
            "This server cannot write Parquet: pyarrow is not installed.",
            "Ask for format=csv, or install costguard[parquet] on the server.",
        )


def _csv(rows: Iterator[tuple[Any, ...]]) -> Iterator[str]:
    """The names of the columns, then rows in pieces. Values stay as FOCUS has them: programs read this file."""
    lines = chain([COLUMNS], (tuple(map(text_of, row)) for row in rows))
    while some := list(islice(lines, _AT_ONCE)):
        out = io.StringIO()
        csv.writer(out, lineterminator="\r\n").writerows(some)
        yield out.getvalue()
