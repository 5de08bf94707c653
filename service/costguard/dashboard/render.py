"""From templates to answers: everything escaped, nothing from elsewhere."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from costguard.dashboard import show

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

    def page(
        self, request: Request, template: str, as_of: datetime, status: int = HTTPStatus.OK, **given: Any
    ) -> HTMLResponse:
        """Every template is told who asks (`me`; None where nobody had to say) and what its forms must carry."""
        told = {"me": getattr(request.state, "principal", None), "csrf": getattr(request.state, "csrf", "")}
        content = self._environment.get_template(template).render(as_of=as_of, **told, **given)
        return HTMLResponse(content, status, {**HEADERS, "Cache-Control": "no-store"})
