"""The metadata server of each VM, at an address of its own: /metadata/ID/computeMetadata/v1/."""

from __future__ import annotations

import math
import time

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from costguard_sandbox.guest.metadata import ROOT, Entry, find
from costguard_sandbox.world import World

_FLAVOR = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}


def routes(world: World) -> list[Route]:
    async def endpoint(request: Request) -> Response:
        # Whoever can be made to fetch an address cannot as easily be made to send a header, or comes through a proxy.
        if request.headers.get("metadata-flavor", "").lower() != "google" or "x-forwarded-for" in request.headers:
            return _refusal(403, 'Missing required header "Metadata-Flavor": "Google"')
        wait_s = _seconds(request)
        if wait_s is None:
            return _refusal(400, "timeout_sec must be a number from 0 up")
        number = request.path_params["vm"]
        with world.bells.listening(number) as bell:
            entry = _entry(world, request)
            known = request.query_params.get("last_etag") or (entry.etag if entry else "")
            ends = time.monotonic() + wait_s
            while entry is not None and entry.etag == known and not world.bells.is_closed:
                left = ends - time.monotonic()
                if left <= 0 or not await bell.wait(None if math.isinf(left) else left):
                    break
                entry = _entry(world, request)
        if entry is None:
            return _refusal(404, f"The requested URL {request.url.path} was not found on this server.")
        if entry.is_elsewhere:
            return RedirectResponse(f"{request.url.path}/", 301, headers=_FLAVOR)
        kind = "application/json" if entry.is_json else "application/text"
        return Response(entry.text, headers={**_FLAVOR, "ETag": entry.etag, "Content-Type": kind})

    base = f"/metadata/{{vm:int}}/{ROOT}"
    return [Route(base, endpoint), Route(f"{base}/{{path:path}}", endpoint)]


def _entry(world: World, request: Request) -> Entry | None:
    with world.settled():
        vm = world.numbered(request.path_params["vm"])
        if vm is None:
            return None
        query = request.query_params
        # The root itself is written with or without its slash.
        path = request.path_params.get("path", "")
        as_json = {"json": True, "text": False}.get(query.get("alt", ""))
        return find(vm, path, is_recursive=query.get("recursive") == "true", as_json=as_json)


def _seconds(request: Request) -> float | None:
    """How long to wait for a change: 0 when not asked to, without end when not told."""
    if request.query_params.get("wait_for_change") != "true":
        return 0.0
    given = request.query_params.get("timeout_sec", "")
    if not given:
        return math.inf
    return float(given) if given.isdecimal() else None


def _refusal(status: int, text: str) -> Response:
    return Response(text, status, headers=_FLAVOR, media_type="text/html; charset=UTF-8")
