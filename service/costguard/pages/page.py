"""Parts that all pages share: dependencies, templates, forms and errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from costguard.access import roles as access
from costguard.access.roles import Actor
from costguard.access.rules import Rules
from costguard.daemon import health
from costguard.db.transaction import Database
from costguard.doctor.finding import SetupReport
from costguard.errors import CostguardError
from costguard.jobs.listing.output import OpenFolder
from costguard.jobs.rows import job_rows
from costguard.jobs.submit.submission import cancel_refusal
from costguard.jobs.submit.submit import JobService
from costguard.ledger import fleet_rows
from costguard.ledger.accrual import Accrual
from costguard.model.access import Permission, Principal
from costguard.pages import show
from costguard.pages.query import BadAddress
from costguard.schedules import schedule_rows
from costguard.schedules.submit import ScheduleService
from costguard.spend.loose.things import LooseThings
from costguard.sweeps import sweep_rows
from costguard.sweeps.submit import SweepService
from costguard.web.memo import memo_of
from costguard.web.permissions import needs
from costguard.web.placeholders import CSRF, INITIAL, SharedText, stand_in
from costguard.web.problems import ProblemError, http_problem, status_of

HEADERS = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Source(health.HealthSources, Protocol):
    """The dependencies of pages: the API's dependencies have this shape, and so has what tests pass in."""

    @property
    def rules(self) -> Rules: ...
    @property
    def version(self) -> str: ...
    @property
    def jobs(self) -> JobService | None: ...
    @property
    def sweeps(self) -> SweepService | None: ...
    @property
    def schedules(self) -> ScheduleService | None: ...
    @property
    def output(self) -> OpenFolder | None: ...
    @property
    def loose(self) -> LooseThings | None: ...
    @property
    def archive(self) -> Path | None: ...

    @property
    def setup(self) -> Callable[[], SetupReport | None]: ...
    @property
    def wake(self) -> Callable[[], None]: ...


class ShownJob(NamedTuple):
    """The job that a page shows, and the view of the database in which all sections of the page are read."""

    source: Source
    connection: Connection
    accrual: Accrual
    id: str


class Renderer:
    """Templates with the filters that show values to people: everything escaped, nothing from elsewhere."""

    def __init__(self, version: str, speed: float, static_version: str) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(Path(__file__).parent / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=show.visible,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(show.FILTERS)
        self._environment.globals.update(version=version, speed=speed, static_version=static_version)

    def shared_page(
        self, request: Request, template: str, as_of: datetime, depends_on: Hashable, **values: Any
    ) -> HTMLResponse:
        """A page that differs between people only in `depends_on`, in their permissions and in their name.

        Its template does not get their name, so that it can be kept for others.
        """
        memo, me = memo_of(request), getattr(request.state, "principal", None)
        if memo.memories is None or not isinstance(me, Principal):
            return self.page(request, template, as_of, **values)
        seen_by, csrf = stand_in(me), CSRF if request.state.csrf else ""
        initial = INITIAL if me.address else me.initial

        def rendered() -> SharedText:
            shared_text = SharedText(self._text(template, as_of, seen_by, initial, csrf, values).encode())
            shared_text.pack()
            return shared_text

        request.state.shared_text = memo.once(
            (template, depends_on, seen_by, csrf), rendered
        )  # the middleware fills it in
        return HTMLResponse(b"", HTTPStatus.OK, {**HEADERS, "Cache-Control": "no-store"})

    def page(
        self, request: Request, template: str, as_of: datetime, status: int = HTTPStatus.OK, **values: Any
    ) -> HTMLResponse:
        """Every template gets the viewer (`me`; None where sign-in is off) and the token that its forms carry."""
        me = getattr(request.state, "principal", None)
        initial, csrf = me.initial if me else "", getattr(request.state, "csrf", "")
        content = self._text(template, as_of, me, initial, csrf, values)
        return HTMLResponse(content, status, {**HEADERS, "Cache-Control": "no-store"})

    def _text(
        self, template: str, as_of: datetime, me: Principal | None, initial: str, csrf: str, values: Mapping[str, Any]
    ) -> str:
        viewer = {"me": me, "initial": initial, "csrf": csrf}
        return self._environment.get_template(template).render(as_of=as_of, **viewer, **values)


@dataclass(frozen=True, slots=True)
class Pages:
    source: Source
    renderer: Renderer

    def render(self, request: Request, template: str, *, status: int = HTTPStatus.OK, **values: Any) -> HTMLResponse:
        """A page as of now."""
        return self.renderer.page(request, template, self.source.clock.now(), status, **values)

    def after_action(self, request: Request, text: str, address: str) -> Response:
        """A confirmation over the page that sent the form; without JavaScript, the page at this address."""
        if not is_in_place(request):
            return redirect(address)
        answer = self.render(request, "_notification.html", text=text)
        answer.headers["HX-Trigger"] = "done"
        return answer


def pages_of(request: Request) -> Pages:
    pages: Pages = request.app.state.pages
    return pages


async def _pages(request: Request) -> Pages:
    return pages_of(request)


Given = Annotated[Pages, Depends(_pages)]


async def _fields(request: Request) -> Sequence[tuple[str, str]]:
    return [(name, value) for name, value in (await request.form()).multi_items() if isinstance(value, str)]


# Of forms whose origin the middleware has verified; files are left out.
Fields = Annotated[Sequence[tuple[str, str]], Depends(_fields)]


def _form(fields: Fields) -> Mapping[str, str]:
    return dict(fields)


Form = Annotated[Mapping[str, str], Depends(_form)]  # of a name that comes several times the last counts


def actor_of(me: Principal, form: Mapping[str, str]) -> Actor:
    """The viewer, or whom the form names where the master token is used. Raises Forbidden and Invalid."""
    return access.actor(me, form.get("by", "") if not me.address else "")


def change_refusal(rules: Rules, me: Principal, noun: str, owner: str, project: str) -> str:
    """Explains why this viewer may not change what an owner has in a project; "" where they may."""
    if not me.may(Permission.JOBS):
        return f"{me.address or 'The master token'} can view {noun} but not change them."
    if not me.address:
        return ""
    return cancel_refusal(me.address, owner, project, rules, me.authority, "change") or ""


def is_in_place(request: Request) -> bool:
    """Says whether the answer replaces a part of the page, rather than the page."""
    return "hx-request" in request.headers


def redirect(address: str) -> RedirectResponse:
    return RedirectResponse(address, HTTPStatus.SEE_OTHER, {"Cache-Control": "no-store"})


class PageRoute(APIRoute):
    """Errors become pages, with the same message as the API's. An address with a name leads to the one with the id."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        handle = super().get_route_handler()

        async def handle_with_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except (BadAddress, ProblemError, CostguardError) as error:
                if request.method == "GET" and _status(error) == HTTPStatus.NOT_FOUND:
                    return await run_in_threadpool(_by_name, request, self.path, error)
                return _problem_page(request, error)

        return handle_with_errors


def _by_name(request: Request, path: str, error: BadAddress | ProblemError | CostguardError) -> Response:
    """The page of what has this name, or else the error."""
    try:
        there = with_id(pages_of(request).source.database, path, request.path_params)
    except CostguardError as several:
        return _problem_page(request, several)
    if there is None:
        return _problem_page(request, error)
    return redirect(f"{there}?{request.url.query}" if request.url.query else there)


def _status(error: BadAddress | ProblemError | CostguardError) -> HTTPStatus:
    return status_of(error) if isinstance(error, CostguardError) else error.status


def _problem_page(request: Request, error: BadAddress | ProblemError | CostguardError) -> Response:
    message = error.detail if isinstance(error, ProblemError) else error.message
    return _error_page(request, _status(error), message, error.what_next or "See the server's log.")


def answer_unknown_pages(app: FastAPI) -> None:
    """A browser gets a page about an address that has none; programs, and all of /api, go on getting a problem."""

    def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        status = HTTPStatus(error.status_code)
        is_for_people = "text/html" in request.headers.get("accept", "") and not _API.match(request.url.path)
        if status not in _UNKNOWN or not is_for_people:
            return http_problem(request, error)
        return _error_page(request, status, *_UNKNOWN[status])

    app.add_exception_handler(HTTPException, unknown)


_API = re.compile("/api(/|$)")
_UNKNOWN = {
    HTTPStatus.NOT_FOUND: ("There is no such page.", "Check the address, or start from Fleet."),
    HTTPStatus.METHOD_NOT_ALLOWED: (
        "This address takes no form.",
        "Open the page again, and send its form from there.",
    ),
}


def page_router(permission: Permission = Permission.READ) -> APIRouter:
    """Pages that need this permission."""
    return APIRouter(route_class=PageRoute, dependencies=[needs(permission)], include_in_schema=False)


def _error_page(request: Request, status: HTTPStatus, message: str, what_next: str) -> Response:
    return pages_of(request).render(
        request, "error.html", status=status, title=status.phrase, message=message, what_next=what_next
    )


def with_id(database: Database, path: str, given: Mapping[str, str]) -> str | None:
    """The address with the id in place of the name; None where nothing has that name. Raises Conflict.

    `path` is the route's, such as `/jobs/{job_id}/output`, and `given` are its parts.
    """
    ids = dict(given)
    with database.read() as connection:
        if "job_id" in given:
            ids["job_id"] = job_rows.id_of(connection, given["job_id"])
        if "sweep_id" in given:
            ids["sweep_id"] = sweep_rows.id_of(connection, given["sweep_id"])
        if "schedule_id" in given:
            ids["schedule_id"] = schedule_rows.id_of(connection, given["schedule_id"])
        if "gce_id" in given:
            ids["gce_id"] = fleet_rows.gce_id_of(connection, given["project"], given["gce_id"])
    return None if ids == given else path.format(**{part: quote(value, safe="") for part, value in ids.items()})
