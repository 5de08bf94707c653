"""Identity documents of VMs, signed with a key of this cloud, whose public half is served where Google serves its own.

Claims: "Verify the identity of VMs" (docs.cloud.google.com/compute/docs/instances/verifying-instance-identity).
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import lru_cache
from typing import Any

from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from costguard_sandbox.gce.catalogue.regions import project_number
from costguard_sandbox.gce.vm import VM

ISSUER = "https://accounts.google.com"
_LASTS_S = 3600
_KID = "sandbox"


@lru_cache(maxsize=1)
def signing_key() -> RSAKey:
    """Returns the key of this process, made when it is first needed: that takes a tenth of a second or more."""
    return RSAKey.generate_key(2048, {"kid": _KID})


def claims_of(vm: VM, email: str, audience: str, now: datetime, *, is_full: bool) -> dict[str, Any]:
    """Returns the claims that Google makes of a VM for this audience; those about the VM only if `is_full`."""
    issued = int(now.timestamp())
    account = str(int(hashlib.sha256(email.encode()).hexdigest()[:16], 16))
    claims: dict[str, Any] = {"aud": audience, "azp": account, "email": email, "email_verified": True}
    claims |= {"exp": issued + _LASTS_S, "iat": issued, "iss": ISSUER, "sub": account}
    if is_full:
        named = {"instance_id": str(vm.id), "instance_name": vm.name, "project_id": vm.project}
        created = int(vm.created_at.timestamp())
        where = {"instance_creation_timestamp": created, "project_number": project_number(vm.project), "zone": vm.zone}
        claims["google"] = {"compute_engine": {**named, **where}}
    return claims


def document_of(vm: VM, email: str, audience: str, now: datetime, *, is_full: bool) -> str:
    """Returns the signed document for one request of a VM."""
    claims = claims_of(vm, email, audience, now, is_full=is_full)
    return jwt.encode({"alg": "RS256", "kid": _KID, "typ": "JWT"}, claims, signing_key(), ["RS256"])


def routes() -> list[Route]:
    """Serves the keys at `/oauth2/v3/certs`, as www.googleapis.com does."""

    def certs(_request: Request) -> Response:
        return JSONResponse({"keys": [{**signing_key().as_dict(private=False), "use": "sig", "alg": "RS256"}]})

    return [Route("/oauth2/v3/certs", certs)]
