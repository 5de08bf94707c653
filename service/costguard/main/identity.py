"""Who vouches for people, by the settings. By the machine's time, whatever time the guard keeps: others sign by it."""

from __future__ import annotations

from costguard.clock import SystemClock
from costguard.model.ports import IapVerifier, OidcProvider
from costguard.settings import Settings


def iap(settings: Settings) -> IapVerifier | None:
    """None: what Identity-Aware Proxy's headers say is not looked at."""
    if settings.sign_in.iap_audience is None:
        return None
    from costguard.identity.iap import Iap  # only here, as below: cryptography is slow to load

    return Iap(settings.sign_in.iap_audience, SystemClock())


def oidc(settings: Settings) -> OidcProvider | None:
    """None: nobody signs in by OpenID Connect."""
    sign_in = settings.sign_in
    if sign_in.oidc_issuer is None or sign_in.oidc_client_id is None:
        return None
    from costguard.identity.oidc import Client, Oidc

    client = Client(
        issuer=sign_in.oidc_issuer,
        id=sign_in.oidc_client_id,
        secret=sign_in.oidc_client_secret.get_secret_value(),
        domain=sign_in.oidc_domain or "",
    )
    return Oidc(client, SystemClock())
