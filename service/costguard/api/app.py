"""The REST API."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware.body_limit import RequestBodyLimitMiddleware

from costguard.api import (
    acts,
    attempts,
    budgets,
    configuration,
    enforcement,
    events,
    health,
    instances,
    jobs,
    kinds,
    metrics,
    places,
    presets,
    prices,
    quotes,
    reminders,
    savings,
    sessions,
    slack,
    spend,
    tokens,
)
from costguard.api.deps import Deps
from costguard.api.document import describe
from costguard.web import problems
from costguard.web.door import MOST_BYTES, Guarded
from costguard.web.metered import Metered
from costguard.web.methods import HeadAsGet
from costguard.web.sharing import Shared

_DESCRIPTION = """What Costguard knows of a fleet of GPU VMs on Google Compute Engine, and what it costs.
Jobs are asked for here; the daemon launches their VMs, and brings them back from their checkpoints.

Money is exact decimal dollars, written as strings. Times are RFC 3339 in UTC. Errors are RFC 9457 problems
whose `next` says what to do. What could not be read or priced is listed as such, never as zero and never as gone.

- **Who asks**: a bearer token, or a session in the browser. What is done is done in the name of whom it speaks for;
  the master token speaks for nobody, and names somebody. A program needs no more than a token with few permissions.
- **Lists** that grow come in pages: ask again with `next_cursor` as `cursor` until it is null. Reports over a period,
  and lists that the settings bound, come whole.
- **Repeats** are harmless with an `Idempotency-Key`: whatever makes something takes one, and makes it once.
- **Polling** is cheap with `If-None-Match`: each GET has a weak `ETag`, and nothing new is a 304. What changes as it
  runs, such as the cost of a VM, is new. `GET /api/v1/events/stream` delivers events without polling.
- **Requests** of one token or session are limited; a 429 says in `Retry-After` when to come again.
- **Unknown** parameters, and parts of a body that are misspelt or of another type, are refused, never passed over.
"""


def create_app(deps: Deps) -> FastAPI:
    """The API over one database. Nobody passes the door unknown, but for what web/door.py leaves open."""
    app = FastAPI(
        title="Costguard",
        version=deps.version,
        description=_DESCRIPTION,
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.deps = deps
    problems.install(app)
    app.add_middleware(Shared, sharing=deps.sharing)
    app.add_middleware(HeadAsGet)
    app.add_middleware(RequestBodyLimitMiddleware, max_body_size=MOST_BYTES)
    app.add_middleware(Guarded, door=deps.door, limits=deps.limits, is_https=deps.is_https)
    app.add_middleware(Metered, meters=deps.meters)
    for module in (
        acts,
        attempts,
        jobs,
        quotes,
        places,
        presets,
        instances,
        events,
        prices,
        spend,
        savings,
        budgets,
        reminders,
        enforcement,
        configuration,
        kinds,
        health,
        metrics,
        tokens,
        sessions,
        slack,
    ):
        app.include_router(module.router)
    for router in (acts.acting_router, jobs.acting_router, tokens.admin_router, tokens.open_router):
        app.include_router(router)
    describe(app)

    @app.get("/api/v1", include_in_schema=False)
    def index() -> dict[str, object]:
        paths = sorted(app.openapi()["paths"])
        return {
            "name": "Costguard",
            "version": deps.version,
            "openapi": "/openapi.json",
            "docs": "/api/docs",
            "paths": paths,
        }

    return app
