"""The REST API."""

from __future__ import annotations

from fastapi import FastAPI, Request

from costguard.api import (
    budgets,
    configuration,
    enforcement,
    events,
    goodput,
    health,
    instances,
    loose,
    metrics,
    presets,
    prices,
    reminders,
    report,
    requests,
    savings,
    sessions,
    slack,
    spend,
    sweeps,
    tokens,
    traces,
)
from costguard.api.bill import commitments, comparison, focus
from costguard.api.deps import Deps
from costguard.api.document import describe
from costguard.api.job import (
    alike,
    attempts,
    code,
    diagnosis,
    jobs,
    limits,
    output,
    places,
    progress,
    quotes,
    schedules,
    vm_claims,
)
from costguard.web import problems
from costguard.web.authentication import AuthenticationMiddleware
from costguard.web.limits import BodyLimitMiddleware
from costguard.web.meters import TimingMiddleware
from costguard.web.problems import HeadAsGet
from costguard.web.routing import add_routes
from costguard.web.sharing import SharingMiddleware

_DESCRIPTION = """Costguard tracks a fleet of GPU VMs on Google Compute Engine and what it costs.
Jobs are submitted here; the daemon launches their VMs and resumes them from their checkpoints.

Money is exact decimal dollars, written as strings. Times are RFC 3339 in UTC. Errors are RFC 9457 problems
whose `next` says what to do. What could not be read or priced is listed as such, never as zero and never as deleted.

- **Authentication**: a bearer token, or a browser session. Actions are recorded under the address of its owner. The
  master token has no address, so its requests name one. Give programs tokens with only the permissions they need.
- **Lists** that grow come in pages: pass `next_cursor` as `cursor` until it is null. Reports over a period, and lists
  that the settings bound, come whole.
- **Repeats** are safe with an `Idempotency-Key`: requests that create something accept one, and create it once.
- **Polling** is cheap with `If-None-Match`: each GET has a weak `ETag`, and a 304 means that nothing is new. Values
  that change as time passes, such as the cost of a running VM, are new. `GET /api/v1/events/stream` delivers events
  without polling.
- **Rate limits** apply to each token and session; a 429 says in `Retry-After` how long to wait.
- **Unknown** parameters, and parts of a body that are misspelt or of another type, are refused, never ignored.
"""
_ROUTERS = (
    requests.router,
    requests.acting_router,
    attempts.router,
    vm_claims.router,
    code.acting_router,
    jobs.router,
    output.router,
    jobs.acting_router,
    quotes.router,
    schedules.router,
    schedules.acting_router,
    sweeps.router,
    sweeps.acting_router,
    places.router,
    traces.router,
    presets.router,
    instances.router,
    events.router,
    prices.router,
    spend.router,
    focus.router,
    comparison.router,
    commitments.router,
    savings.router,
    loose.router,
    goodput.router,
    diagnosis.router,
    progress.router,
    alike.router,
    budgets.router,
    limits.router,
    reminders.router,
    enforcement.router,
    report.router,
    configuration.router,
    configuration.problems_router,
    health.router,
    health.setup_router,
    metrics.router,
    tokens.router,
    tokens.admin_router,
    tokens.open_router,
    sessions.router,
    slack.router,
)


def create_app(deps: Deps) -> FastAPI:
    """The API over one database. All but the paths that web/authentication.py leaves open need a principal."""
    app = FastAPI(
        title="Costguard",
        version=deps.version,
        description=_DESCRIPTION,
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.deps = deps
    problems.install(app)
    app.add_middleware(SharingMiddleware, sharing=deps.sharing)
    app.add_middleware(HeadAsGet)
    app.add_middleware(BodyLimitMiddleware)
    app.add_middleware(
        AuthenticationMiddleware, authenticator=deps.authenticator, limits=deps.limits, is_https=deps.is_https
    )
    app.add_middleware(attempts.AgentReports, deps=deps)
    app.add_middleware(TimingMiddleware, meters=deps.meters)
    add_routes(app, _ROUTERS)
    describe(app)
    app.add_api_route("/api/v1", _index, include_in_schema=False)
    return app


def _index(request: Request) -> dict[str, object]:
    app: FastAPI = request.app
    return {
        "name": "Costguard",
        "version": app.version,
        "openapi": "/openapi.json",
        "docs": "/api/docs",
        "paths": sorted(app.openapi()["paths"]),
    }
