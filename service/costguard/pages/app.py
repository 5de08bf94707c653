"""Pages for people, added to the application that also holds the API."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from costguard.pages import (
    access,
    api_docs,
    audit_log,
    bill,
    budgets,
    fleet,
    health,
    jobs,
    launch,
    loose,
    presets,
    prices,
    savings,
    schedules,
    spend,
    sweeps,
    vm,
)
from costguard.pages.job import limits, output
from costguard.pages.job import page as job
from costguard.pages.page import HEADERS, Pages, Renderer, Source, answer_unknown_pages
from costguard.web.routing import add_routes

_STATIC = Path(__file__).parent / "static"
_YEAR = 31_536_000
_PAGES = (
    fleet,
    vm,
    jobs,
    job,
    output,
    sweeps,
    schedules,
    launch,
    spend,
    savings,
    loose,
    bill,
    budgets,
    limits,
    presets,
    prices,
    audit_log,
    health,
    access,
    api_docs,
)
_ACTING_ROUTERS = (
    vm.acting_router,
    job.acting_router,
    sweeps.acting_router,
    schedules.acting_router,
    access.admin_router,
)


def add_pages(app: FastAPI, source: Source, speed: float = 1.0) -> None:
    """All pages but signing in. `speed`: how many seconds of the clock pass in one of the viewer's."""
    app.state.pages = Pages(source, Renderer(source.version, speed, _fingerprint()))
    add_routes(app, (*_ACTING_ROUTERS, *(page.router for page in _PAGES)))
    answer_unknown_pages(app)
    app.mount("/static", _Static(directory=_STATIC), name="static")
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)


def _fingerprint() -> str:
    """Changes with the files, so that browsers may keep them for ever under one address."""
    content = b"".join(path.read_bytes() for path in sorted(_STATIC.rglob("*")) if path.is_file())
    return sha256(content).hexdigest()[:12]


class _Static(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers.update(HEADERS)
        is_addressed_by_content = scope["query_string"].startswith(b"v=")
        answer.headers["Cache-Control"] = f"max-age={_YEAR}, immutable" if is_addressed_by_content else "no-cache"
        return answer
