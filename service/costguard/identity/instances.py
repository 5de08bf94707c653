"""Identity documents of Compute Engine: a VM's metadata server has Google sign which VM it is.

"Verify the identity of VMs" (docs.cloud.google.com/compute/docs/instances/verifying-instance-identity): an RS256 token
of `https://accounts.google.com` whose claims `google.compute_engine` name project, zone, name and numeric id, signed
with the keys at https://www.googleapis.com/oauth2/v3/certs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costguard.identity.assertions import claims_of, refused
from costguard.identity.keys import Keys, TimeSource, get
from costguard.model.instance import ProvenVm

_PATH = "/oauth2/v3/certs"
KEYS = f"https://www.googleapis.com{_PATH}"
_ISSUER = "https://accounts.google.com"
_WHAT = "The identity document of a VM"
_TEXTS = ("project_id", "zone", "instance_name")


def keys_of(endpoint: str | None) -> str:
    """Returns where the keys are that sign for VMs: Google's, or a simulated cloud's, at its `endpoint`."""
    return KEYS if endpoint is None else f"{endpoint.rstrip('/')}{_PATH}"


class InstanceIdentities:
    """Thread-safe. `clock` is Google's, as far as this machine knows it: documents are good for an hour."""

    def __init__(self, clock: TimeSource, keys_url: str = KEYS) -> None:
        self._clock = clock
        self._keys = Keys(lambda: get(keys_url, "Google's keys for the identity of VMs"), clock)

    def vm(self, document: str, audience: str) -> ProvenVm:
        """Returns the VM that this document was made on, for this audience.

        Raises SignInRefused, and SignInUnavailable where Google's keys do not answer: then nothing is known. The
        document is in no message.
        """
        claims = claims_of(document, self._keys, ("RS256",), _ISSUER, self._clock.now(), _WHAT)
        if claims.get("aud") != audience:
            raise refused(_WHAT, "it is for another guard or job")
        engine = _part(_part(claims, "google"), "compute_engine")
        project, zone, name = (_text(engine, key) for key in _TEXTS)
        # A number in JSON loses digits in some readers: Google writes the id as text.
        gce_id = _text(engine, "instance_id")
        if not (project and zone and name and gce_id.isdecimal()):
            raise refused(_WHAT, "it names no VM, as one does that was not requested with format=full")
        return ProvenVm(project, zone, name, gce_id)


def _part(claims: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = claims.get(key)
    return value if isinstance(value, Mapping) else {}


def _text(claims: Mapping[str, Any], key: str) -> str:
    value = claims.get(key)
    return value if isinstance(value, str) else ""
