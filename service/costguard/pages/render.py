"""From templates to answers: everything escaped, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from costguard.model.access import Principal
from costguard.pages import show
from costguard.web.holes import CSRF, Cut, initial, stand_in
from costguard.web.memo import memo_of

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


class Renderer:
    """Templates read once, with the filters that show values to people."""

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
        self, request: Request, template: str, as_of: datetime, depends_on: Hashable, **given: Any
    ) -> HTMLResponse:
        """A page that differs between people in `depends_on`, in what they may do, and in their name alone.

        Its template does not get their name, so that it can be kept for others.
        """
        memo, me = memo_of(request), getattr(request.state, "principal", None)
        if memo.memories is None or not isinstance(me, Principal):
            return self.page(request, template, as_of, **given)
        seen_by, csrf = stand_in(me), CSRF if request.state.csrf else ""

        def rendered() -> Cut:
            cut = Cut(self._text(template, as_of, seen_by, csrf, given).encode())
            cut.pack()
            return cut

        request.state.cut = memo.once((template, depends_on, seen_by, csrf), rendered)  # the middleware fills it in
        return HTMLResponse(b"", HTTPStatus.OK, {**HEADERS, "Cache-Control": "no-store"})

    def page(
        self, request: Request, template: str, as_of: datetime, status: int = HTTPStatus.OK, **given: Any
    ) -> HTMLResponse:
        """Every template is told who asks (`me`; None where nobody had to say) and what its forms must carry."""
        me = getattr(request.state, "principal", None)
        content = self._text(template, as_of, me, getattr(request.state, "csrf", ""), given)
        return HTMLResponse(content, status, {**HEADERS, "Cache-Control": "no-store"})

    def _text(self, template: str, as_of: datetime, me: Principal | None, csrf: str, given: Mapping[str, Any]) -> str:
        told = {"me": me, "initial": initial(me.address) if me else "", "csrf": csrf}
        return self._environment.get_template(template).render(as_of=as_of, **told, **given)
