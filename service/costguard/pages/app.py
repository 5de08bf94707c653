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
    routes_api_docs,
    routes_facts,
    routes_fleet,
    routes_health,
    routes_jobs,
    routes_launch,
    routes_prices,
    routes_spend,
    routes_tokens,
)
from costguard.pages.render import HEADERS, Renderer
from costguard.pages.route import Dashboard
from costguard.pages.source import Source

_STATIC = Path(__file__).parent / "static"
_YEAR = 31_536_000
_ROUTERS = (
    routes_fleet.router,
    routes_fleet.acting_router,
    routes_jobs.router,
    routes_jobs.acting_router,
    routes_spend.router,
    routes_facts.router,
    routes_tokens.admin_router,
    routes_tokens.router,
    routes_prices.router,
    routes_health.router,
    routes_launch.router,
    routes_api_docs.router,
)


def add_dashboard(app: FastAPI, source: Source, speed: float = 1.0) -> None:
    """All pages; the modules routes_*.py list them. `speed`: seconds of the clock in one of the viewer's."""
    app.state.dashboard = Dashboard(source, Renderer(source.version, speed, _fingerprint()))
    for router in _ROUTERS:
        app.include_router(router, include_in_schema=False)
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
