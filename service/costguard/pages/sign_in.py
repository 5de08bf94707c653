"""Where people sign in, and out again. Open to strangers, so nothing here tells of the fleet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from ipaddress import ip_address, ip_network
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.responses import RedirectResponse, Response

from costguard.access.sign_ins import CALLBACK, USED_LINK, SignIns
from costguard.errors import SignInRefused, SignInUnavailable
from costguard.model.access import Permission, Principal, Via
from costguard.pages.cookies import drop, keep, kept
from costguard.pages.route import Given, PageRoute
from costguard.web.door import COOKIES, IAP_HEADER, Limits
from costguard.web.who import proven

_BEGUN = ("__Host-costguard_begun", "costguard_begun")  # a sign-in through the provider
LEFT = "/sign-in?left=yes"
_TEN_MINUTES = timedelta(minutes=10)
_CLEARED_BY_GOOGLE = "/?gcp-iap-mode=CLEAR_LOGIN_COOKIE"
# What a provider may answer in place of a code; its own further words could be anybody's.
_PROVIDER_SAYS = {
    "access_denied": "The provider did not sign you in: you, or a rule there, said no.",
    "login_required": "The provider asks you to sign in there first.",
    "temporarily_unavailable": "The provider cannot sign anybody in at the moment.",
}

router = APIRouter(route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class SignInPages:
    """`lasts` is how long browsers keep a session, `is_https` whether people reach the server by it.

    `ask` is whom somebody without a role is told to ask; "" names nobody.
    """

    sign_ins: SignIns
    limits: Limits
    lasts: timedelta
    is_https: bool = False
    is_behind_iap: bool = False
    ask: str = ""


def add_sign_in(app: FastAPI, pages: SignInPages) -> None:
    app.state.sign_in = pages
    app.include_router(router, include_in_schema=False)


def _given(request: Request) -> SignInPages:
    found: SignInPages = request.app.state.sign_in
    return found


Pages = Annotated[SignInPages, Depends(_given)]


@router.get("/sign-in")
def show(request: Request, board: Given, pages: Pages, next: str = "/", left: str = "") -> Response:
    """Whoever is signed in already, and may look at something, is sent on."""
    who = request.state.principal
    if isinstance(who, Principal) and who.may(Permission.READ):
        return _to(local(next))
    return _page(request, board, pages, left=bool(left), next=local(next))


@router.get("/sign-in/link/{code}")
def show_link(request: Request, board: Given, pages: Pages, code: str) -> Response:
    """Looking does not use it up: whatever previews links for people would sign in for them."""
    if (wait := _limited(request, board, pages)) is not None:
        return wait
    if not pages.sign_ins.is_good(code):
        return _refused(request, board, pages, pages.sign_ins.refused(Via.LINK, _client(request), _used()))
    return _page(request, board, pages, link=request.url.path)


@router.post("/sign-in/link/{code}")
def use_link(request: Request, board: Given, pages: Pages, code: str) -> Response:
    if (wait := _limited(request, board, pages)) is not None:
        return wait
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        # Another page could sign somebody in as somebody else, who would then see what they do.
        return _page(request, board, pages, link=request.url.path)
    try:
        arrival = pages.sign_ins.by_link(code, _client(request))
    except SignInRefused as refused:
        return _refused(request, board, pages, refused)
    answer = _to(arrival.next)
    keep(request, answer, COOKIES, arrival.cookie, pages.lasts, is_https=pages.is_https)
    return answer


@router.get("/sign-in/oidc")
def begin(request: Request, board: Given, pages: Pages, next: str = "/") -> Response:
    if (wait := _limited(request, board, pages)) is not None:
        return wait
    try:
        url, cookie = pages.sign_ins.begin(local(next), _client(request))
    except SignInRefused as refused:
        return _refused(request, board, pages, refused)
    answer = _to(url)
    keep(request, answer, _BEGUN, cookie, _TEN_MINUTES, is_https=pages.is_https)
    return answer


@router.get(CALLBACK)
def come_back(
    request: Request, board: Given, pages: Pages, state: str = "", code: str = "", error: str = ""
) -> Response:
    if (wait := _limited(request, board, pages)) is not None:
        return wait
    begun = kept(request, _BEGUN)
    try:
        if error:
            says = _PROVIDER_SAYS.get(error, "The provider did not sign you in.")
            raise pages.sign_ins.refused(Via.OIDC, _client(request), SignInRefused(says, "Try again, or ask there."))
        arrival = pages.sign_ins.finish(begun, state, code, _client(request))
    except SignInRefused as refused:
        answer = _refused(request, board, pages, refused)
    else:
        answer = _to(arrival.next)
        keep(request, answer, COOKIES, arrival.cookie, pages.lasts, is_https=pages.is_https)
    drop(request, answer, _BEGUN)
    return answer


@router.post("/sign-out", dependencies=[Depends(proven)])
def sign_out(request: Request, pages: Pages) -> Response:
    """The session is over on the server too, wherever a copy of its cookie lies."""
    who: Principal = request.state.principal
    if who.session:
        pages.sign_ins.leave(who)
    # Google would sign them in again with the next page, unless it is told.
    answer = _to(_CLEARED_BY_GOOGLE if who.via is Via.IAP else LEFT)
    drop(request, answer, COOKIES)
    return answer


def local(address: str) -> str:
    """This address if it is one of ours to go to, else the first page. Browsers read `\\` as `/`, and skip controls."""
    is_path = address.startswith("/") and not address.startswith("//")
    is_clean = address.isprintable() and "\\" not in address and len(address) <= 2000
    is_page = not address.startswith(("/sign-in", "/sign-out", "/api/"))
    return address if is_path and is_clean and is_page else "/"


def _to(address: str) -> RedirectResponse:
    return RedirectResponse(address, HTTPStatus.SEE_OTHER, {"Cache-Control": "no-store"})


def _page(request: Request, board: Given, pages: SignInPages, status: int = HTTPStatus.OK, **told: object) -> Response:
    """`link`: where a button leads; `refused`: what went wrong; `left`: they signed out; `next`: where they go."""
    provider = pages.sign_ins.provider
    came_by_iap = pages.is_behind_iap and IAP_HEADER in request.headers
    given: dict[str, object] = {
        "link": "",
        "refused": None,
        "left": False,
        "next": "/",
        "provider": provider.name if provider is not None else "",
        "pages": pages,
        "by_iap": getattr(request.state, "stranger", None) if came_by_iap else None,
        **told,
    }
    return board.renderer.page(request, "sign_in.html", board.source.clock.now(), status, **given)


def _refused(request: Request, board: Given, pages: SignInPages, refused: SignInRefused) -> Response:
    is_down = isinstance(refused, SignInUnavailable)
    status = HTTPStatus.SERVICE_UNAVAILABLE if is_down else HTTPStatus.FORBIDDEN
    return _page(request, board, pages, status, refused=refused)


def _limited(request: Request, board: Given, pages: SignInPages) -> Response | None:
    headers: Mapping[str, str] | None = pages.limits.refusal(_counted_as(_client(request)))
    if headers is None:
        return None
    why = SignInRefused(
        "Too many have tried to sign in from your address.", f"Wait {headers['Retry-After']} seconds, then try again."
    )
    answer = _page(request, board, pages, HTTPStatus.TOO_MANY_REQUESTS, refused=why)
    answer.headers.update(headers)
    return answer


def _client(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _counted_as(client: str) -> str:
    """One line's many addresses of IPv6 are one."""
    try:
        address = ip_address(client)
    except ValueError:
        return client
    return client if address.version == 4 else str(ip_network((address, 64), strict=False))


def _used() -> SignInRefused:
    return SignInRefused(*USED_LINK)
