"""The routes of the API, under /bigquery/v2, and of the sandbox: which tables there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from costguard_sandbox.bigquery.tables import QueryRefused, Result, Tables

_ROOT = "/bigquery/v2/projects/{project}"
Endpoint = Callable[[Request], Awaitable[Response]]


def routes(tables: Tables) -> list[Route]:
    async def table(request: Request) -> Response:
        path = request.path_params
        shown = tables.table(f"{path['project']}.{path['dataset']}.{path['table']}")
        reference = {"projectId": path["project"], "datasetId": path["dataset"], "tableId": path["table"]}
        partitioning: dict[str, Any] = {"type": "DAY", **({"field": shown.cut_by} if shown.cut_by else {})}
        return _json(
            {
                "kind": "bigquery#table",
                "type": "TABLE",
                "tableReference": reference,
                "schema": {"fields": shown.schema},
                **({"timePartitioning": partitioning} if shown.is_cut else {}),
            }
        )

    async def query(request: Request) -> Response:
        body = orjson.loads(await request.body())
        tables.queries.append(body)
        if body.get("useLegacySql", True):
            raise QueryRefused(400, "invalidQuery", "Encountered parameters in legacy SQL")
        most = body.get("maximumBytesBilled")
        int64_times = bool((body.get("formatOptions") or {}).get("useInt64Timestamp"))
        result = tables.run(body["query"], _parameters(body), None if most is None else int(most), int64_times)
        job = f"job_{len(tables.results)}"
        tables.results[job] = result
        reference = {"projectId": request.path_params["project"], "jobId": job, "location": body.get("location", "US")}
        answer = {"kind": "bigquery#queryResponse", "jobReference": reference, "queryId": job}
        bytes_read = {"totalBytesProcessed": str(result.bytes_processed), "totalBytesBilled": str(result.bytes_billed)}
        if tables.pending:
            tables.pending -= 1
            return _json({**answer, "jobComplete": False})
        return _json({**answer, **bytes_read, **_page(tables, result, 0, int(body.get("maxResults", 10**9)))})

    async def results(request: Request) -> Response:
        job = request.path_params["job"]
        if job not in tables.results:
            raise QueryRefused(404, "notFound", f"Not found: Job {request.path_params['project']}:{job}")
        result = tables.results[job]
        reference = {"projectId": request.path_params["project"], "jobId": job, "location": "US"}
        answer = {"kind": "bigquery#getQueryResultsResponse", "jobReference": reference}
        if tables.pending:
            tables.pending -= 1
            return _json({**answer, "jobComplete": False})
        start = int(request.query_params.get("pageToken", "0"))
        page = _page(tables, result, start, int(request.query_params.get("maxResults", 10**9)))
        return _json({**answer, "totalBytesProcessed": str(result.bytes_processed), **page})

    async def shown(_request: Request) -> Response:
        return _json({"tables": sorted(tables.tables)})

    return [
        Route(f"{_ROOT}/datasets/{{dataset}}/tables/{{table}}", _answered(table), methods=["GET"]),
        Route(f"{_ROOT}/queries", _answered(query), methods=["POST"]),
        Route("/sandbox/bigquery", shown, methods=["GET"]),
        Route(f"{_ROOT}/queries/{{job}}", _answered(results), methods=["GET"]),
    ]


def _answered(endpoint: Endpoint) -> Endpoint:
    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except QueryRefused as refused:
            error = {"message": refused.message, "domain": "global", "reason": refused.reason}
            body = {"error": {"code": refused.status, "message": refused.message, "errors": [error]}}
            return _json(body, refused.status)

    return answered


def _parameters(body: Mapping[str, Any]) -> dict[str, datetime]:
    """All are TIMESTAMPs here."""
    return {
        one["name"]: datetime.fromisoformat(one["parameterValue"]["value"]) for one in body.get("queryParameters") or ()
    }


def _page(tables: Tables, result: Result, start: int, most: int) -> dict[str, Any]:
    end = start + max(1, min(most, tables.page_rows))
    more = {"pageToken": str(end)} if end < len(result.rows) else {}
    rows = [{"f": [{"v": value} for value in row]} for row in result.rows[start:end]]
    return {
        "jobComplete": True,
        "schema": {"fields": result.fields},
        "totalRows": str(len(result.rows)),
        **({"rows": rows} if rows else {}),
        **more,
    }


def _json(answer: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(answer), status_code=status, media_type="application/json; charset=UTF-8")
