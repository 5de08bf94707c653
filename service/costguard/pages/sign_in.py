"""The page Sign in, and signing out. It is open to strangers, so it says nothing about the fleet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from ipaddress import ip_address, ip_network
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.responses import Response

from costguard.access.sign_ins import CALLBACK, USED_LINK, SignIns
from costguard.errors import SignInRefused, SignInUnavailable
from costguard.model.access import Permission, Principal, Via
from costguard.pages.page import Given, PageRoute, redirect
from costguard.web.authentication import COOKIES, IAP_HEADER, RateLimiter
from costguard.web.permissions import proven
from costguard.web.routing import add_routes

# Each cookie has one of two names: the first over https, because no other host can set it then.
CookieNames = tuple[str, str]
_PENDING: CookieNames = ("__Host-costguard_begun", "costguard_begun")  # a sign-in with the provider in progress
_TEN_MINUTES = timedelta(minutes=10)
SIGNED_OUT = "/sign-in?left=yes"
_CLEARED_BY_GOOGLE = "/?gcp-iap-mode=CLEAR_LOGIN_COOKIE"
# What a provider may answer in place of a code; its own further words could be anyone's.
_PROVIDER_ERRORS = {
    "access_denied": "The identity provider did not sign you in: you, or one of its rules, declined.",
    "login_required": "The identity provider asks you to sign in there first.",
    "temporarily_unavailable": "The identity provider cannot sign anyone in at the moment.",
}

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True, slots=True)
class SignInPages:
    """`lasts` is how long browsers keep a session, `is_https` whether people reach the server over https.

    `ask` is whom people without a role should ask for one; "" names no one.
    """

    sign_ins: SignIns
    limits: RateLimiter
    lasts: timedelta
    is_https: bool = False
    is_behind_iap: bool = False
    ask: str = ""


def add_sign_in(app: FastAPI, sign_in: SignInPages) -> None:
    app.state.sign_in = sign_in
    add_routes(app, [router])


def _sign_in(request: Request) -> SignInPages:
    sign_in: SignInPages = request.app.state.sign_in
    return sign_in


SignIn = Annotated[SignInPages, Depends(_sign_in)]


@router.get("/sign-in")
def show_sign_in(request: Request, pages: Given, sign_in: SignIn, next: str = "/", left: str = "") -> Response:
    """People who are signed in already, and may view something, go on to `next`."""
    who = request.state.principal
    if isinstance(who, Principal) and who.may(Permission.READ):
        return redirect(local(next))
    return _page(request, pages, sign_in, left=bool(left), next=local(next))


@router.get("/sign-in/link/{code}")
def show_link(request: Request, pages: Given, sign_in: SignIn, code: str) -> Response:
    """Viewing does not use it up: programs that preview links would otherwise sign in."""
    if (wait := _limited(request, pages, sign_in)) is not None:
        return wait
    if not sign_in.sign_ins.is_good(code):
        used = SignInRefused(*USED_LINK)
        return _refused(request, pages, sign_in, sign_in.sign_ins.refused(Via.LINK, _client(request), used))
    return _page(request, pages, sign_in, link=request.url.path)


@router.post("/sign-in/link/{code}")
def use_link(request: Request, pages: Given, sign_in: SignIn, code: str) -> Response:
    if (wait := _limited(request, pages, sign_in)) is not None:
        return wait
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        # Another site could sign a person in as someone else, who would then see what they do.
        return _page(request, pages, sign_in, link=request.url.path)
    try:
        arrival = sign_in.sign_ins.by_link(code, _client(request))
    except SignInRefused as refused:
        return _refused(request, pages, sign_in, refused)
    answer = redirect(arrival.next)
    _set_cookie(request, answer, COOKIES, arrival.cookie, sign_in.lasts, is_https=sign_in.is_https)
    return answer


@router.get("/sign-in/oidc")
def begin(request: Request, pages: Given, sign_in: SignIn, next: str = "/") -> Response:
    if (wait := _limited(request, pages, sign_in)) is not None:
        return wait
    try:
        url, cookie = sign_in.sign_ins.begin(local(next), _client(request))
    except SignInRefused as refused:
        return _refused(request, pages, sign_in, refused)
    answer = redirect(url)
    _set_cookie(request, answer, _PENDING, cookie, _TEN_MINUTES, is_https=sign_in.is_https)
    return answer


@router.get(CALLBACK)
def come_back(
    request: Request, pages: Given, sign_in: SignIn, state: str = "", code: str = "", error: str = ""
) -> Response:
    if (wait := _limited(request, pages, sign_in)) is not None:
        return wait
    pending = next((request.cookies[name] for name in _PENDING if name in request.cookies), "")
    try:
        if error:
            says = _PROVIDER_ERRORS.get(error, "The identity provider did not sign you in.")
            why = SignInRefused(says, "Try again, or ask its administrator.")
            raise sign_in.sign_ins.refused(Via.OIDC, _client(request), why)
        arrival = sign_in.sign_ins.finish(pending, state, code, _client(request))
    except SignInRefused as refused:
        answer = _refused(request, pages, sign_in, refused)
    else:
        answer = redirect(arrival.next)
        _set_cookie(request, answer, COOKIES, arrival.cookie, sign_in.lasts, is_https=sign_in.is_https)
    drop(request, answer, _PENDING)
    return answer


@router.post("/sign-out", dependencies=[Depends(proven)])
def sign_out(request: Request, sign_in: SignIn) -> Response:
    """Ends the session on the server too, so that copies of its cookie are worthless."""
    who: Principal = request.state.principal
    if who.session:
        sign_in.sign_ins.leave(who)
    # Behind Google's proxy the next page would sign them in again.
    answer = redirect(_CLEARED_BY_GOOGLE if who.via is Via.IAP else SIGNED_OUT)
    drop(request, answer, COOKIES)
    return answer


def local(address: str) -> str:
    """This address if it is one of our pages, else the first page. Browsers read `\\` as `/`, and skip controls."""
    is_path = address.startswith("/") and not address.startswith("//")
    is_clean = address.isprintable() and "\\" not in address and len(address) <= 2000
    is_page = not address.startswith(("/sign-in", "/sign-out", "/api/"))
    return address if is_path and is_clean and is_page else "/"


def drop(request: Request, answer: Response, names: CookieNames) -> None:
    for name in names:
        if name in request.cookies:
            answer.delete_cookie(name, path="/", secure=name == names[0], httponly=True, samesite="lax")


def _set_cookie(
    request: Request, answer: Response, names: CookieNames, value: str, lasts: timedelta, *, is_https: bool
) -> None:
    """Hidden from scripts, and not sent along with other sites' forms. `is_https`: as the settings say."""
    is_https = is_https or request.url.scheme == "https"
    answer.set_cookie(
        names[0] if is_https else names[1],
        value,
        max_age=int(lasts.total_seconds()),
        path="/",
        secure=is_https,
        httponly=True,
        samesite="lax",
    )


def _page(
    request: Request, pages: Given, sign_in: SignInPages, status: int = HTTPStatus.OK, **values: object
) -> Response:
    """`link`: where the button leads; `refused`: what went wrong; `left`: they signed out; `next`: where they go."""
    provider = sign_in.sign_ins.provider
    came_by_iap = sign_in.is_behind_iap and IAP_HEADER in request.headers
    shown: dict[str, object] = {
        "link": "",
        "refused": None,
        "left": False,
        "next": "/",
        "provider": provider.name if provider is not None else "",
        "sign_in": sign_in,
        "by_iap": getattr(request.state, "stranger", None) if came_by_iap else None,
        **values,
    }
    return pages.render(request, "sign_in.html", status=status, **shown)


def _refused(request: Request, pages: Given, sign_in: SignInPages, refused: SignInRefused) -> Response:
    is_down = isinstance(refused, SignInUnavailable)
    status = HTTPStatus.SERVICE_UNAVAILABLE if is_down else HTTPStatus.FORBIDDEN
    return _page(request, pages, sign_in, status, refused=refused)


def _limited(request: Request, pages: Given, sign_in: SignInPages) -> Response | None:
    headers: Mapping[str, str] | None = sign_in.limits.refusal(_counted_as(_client(request)))
    if headers is None:
        return None
    why = SignInRefused(
        "There were too many sign-ins from your network.", f"Wait {headers['Retry-After']} seconds, then try again."
    )
    answer = _page(request, pages, sign_in, HTTPStatus.TOO_MANY_REQUESTS, refused=why)
    answer.headers.update(headers)
    return answer


def _client(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _counted_as(client: str) -> str:
    """Counts the many IPv6 addresses of one connection as one; an IPv4 address written as IPv6 counts as itself."""
    try:
        address = ip_address(client)
    except ValueError:
        return client
    address = getattr(address, "ipv4_mapped", None) or address
    return str(address if address.version == 4 else ip_network((address, 64), strict=False))
