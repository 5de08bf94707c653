"""Authentication and sign-in, built from the settings and from keys in the database, for the serving process."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from costguard.access import signing
from costguard.access.authentication import Authenticator
from costguard.access.links import GOOD_FOR
from costguard.access.sessions import Sessions
from costguard.access.sign_ins import Provider, SignIns
from costguard.access.signing import Seal
from costguard.clock import SystemClock
from costguard.db.transaction import Database
from costguard.model.access import Via
from costguard.model.ports import Clock, IapVerifier, OidcProvider
from costguard.pages.sign_in import SignInPages
from costguard.settings import Settings
from costguard.web.limits import TokenBucket


def iap_verifier(settings: Settings) -> IapVerifier | None:
    """Makes the verifier. None: headers of Identity-Aware Proxy are ignored."""
    if settings.sign_in.iap_audience is None:
        return None
    from costguard.identity.iap import Iap  # only here, as below: cryptography is slow to load

    return Iap(settings.sign_in.iap_audience, SystemClock())


def oidc_provider(settings: Settings) -> OidcProvider | None:
    """Makes the provider. None: OpenID Connect is not set up."""
    sign_in = settings.sign_in
    if sign_in.oidc_issuer is None or sign_in.oidc_client_id is None:
        return None
    from costguard.identity.oidc import Oidc, OidcClient

    client = OidcClient(
        issuer=sign_in.oidc_issuer,
        id=sign_in.oidc_client_id,
        secret=sign_in.oidc_client_secret.get_secret_value(),
        domain=sign_in.oidc_domain or "",
    )
    return Oidc(client, SystemClock())


_KEY = "sessions"
# To sign in, a minute and an address: behind a balancer all of a company come from one.
_TRIES = 240


def authenticator_of(settings: Settings, database: Database, clock: Clock, speed: float = 1.0) -> Authenticator:
    """Makes the authenticator that every process over this database has alike: a session is valid at each of them."""
    seal, sessions = _sessions(settings, database, clock, speed)
    master = settings.token.get_secret_value() if settings.token is not None else None
    iap = iap_verifier(settings)
    return Authenticator(
        database, clock, settings.access.access, seal, sessions, master, iap.address if iap is not None else None
    )


def sign_in_pages(
    settings: Settings, database: Database, clock: Clock, speed: float, count: Callable[[Via, bool], None]
) -> SignInPages:
    """Where people sign in, by the ways that the settings give. `count` hears of each try."""
    sign_in = settings.sign_in
    seal, sessions = _sessions(settings, database, clock, speed)
    provider = None
    if (oidc := oidc_provider(settings)) is not None:
        provider = Provider(_called(sign_in.oidc_issuer or ""), sign_in.url or "", oidc, GOOD_FOR * speed)
    # Anyone may have an account with a provider: an address is shown to known people alone.
    is_of_the_house = sign_in.iap_audience is not None or sign_in.oidc_domain is not None
    return SignInPages(
        SignIns(
            database,
            clock,
            settings.access.access,
            seal,
            sessions,
            provider,
            count=count,
        ),
        limits=TokenBucket(_TRIES),
        lasts=sign_in.session,
        is_https=(sign_in.url or "").startswith("https://"),
        is_behind_iap=sign_in.iap_audience is not None,
        ask=(settings.reminders.contact or "") if is_of_the_house else "",
    )


def _sessions(settings: Settings, database: Database, clock: Clock, speed: float) -> tuple[Seal, Sessions]:
    """Sessions last by the viewer's clock, whatever clock the guard keeps."""
    seal = Seal(signing.kept(database, _KEY, clock.now()))
    return seal, Sessions(database, clock, settings.sign_in.session * speed)


def _called(issuer: str) -> str:
    return "Google" if issuer == "https://accounts.google.com" else urlsplit(issuer).hostname or issuer
