"""The object stores, made with the credentials of this machine, few retries and short waits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import Any

from costguard.checkpoints.location import Location

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
_S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_S3_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
# obstore tries ten times within three minutes by itself; a look is repeated anyway.
_TRIES = 3
_REQUEST, _CONNECT, _ALL_TRIES = timedelta(seconds=10), timedelta(seconds=3), timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class Access:
    """Where stores are, if not at Amazon and Google. Google's own credentials are never sent to `gcs_endpoint`."""

    s3_endpoint: str = ""
    s3_region: str = ""
    gcs_endpoint: str = ""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    first_wait: timedelta = timedelta(milliseconds=200)


def open_store(where: Location, access: Access) -> Any:
    """A store of the location's bucket. May raise what google.auth raises."""
    return _gcs(where, access) if where.scheme == "gs" else _s3(where, access)


def _s3(where: Location, access: Access) -> Any:
    from obstore.store import S3Store

    given = next((access.environ[name] for name in _S3_ENDPOINTS if access.environ.get(name)), "")
    endpoint = access.s3_endpoint or given
    config: Any = {}
    if endpoint:
        config["endpoint"] = endpoint
        # Elsewhere than at Amazon no machine gives out Amazon's credentials, and asking for them takes seconds.
        config["skip_signature"] = not any(access.environ.get(name) for name in _S3_CREDENTIALS)
    if access.s3_region:
        config["region"] = access.s3_region
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        if access.environ.get(name):
            config[name.removeprefix("AWS_").lower()] = access.environ[name]
    return S3Store(where.bucket, config=config, client_options=_client(endpoint), retry_config=_retry(access))


def _gcs(where: Location, access: Access) -> Any:
    from obstore.store import GCSStore

    endpoint = access.gcs_endpoint
    options: dict[str, Any] = {"client_options": _client(endpoint), "retry_config": _retry(access)}
    if endpoint:
        key = {
            "gcs_base_url": endpoint,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        return GCSStore(where.bucket, config={"service_account_key": json.dumps(key)}, **options)
    return GCSStore(where.bucket, credential_provider=google_credentials(), **options)


def google_credentials(credentials: Any = None) -> Any:
    """Google's default credentials as obstore asks for them, so that buckets are read as everything else is."""
    import google.auth
    from google.auth.transport.requests import Request

    if credentials is None:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    request = Request()

    def token() -> Mapping[str, Any]:
        credentials.refresh(request)
        expiry = credentials.expiry
        return {"token": credentials.token, "expires_at": expiry.replace(tzinfo=UTC) if expiry else None}

    return token


def _client(endpoint: str) -> Any:
    return {"timeout": _REQUEST, "connect_timeout": _CONNECT, "allow_http": endpoint.startswith("http://")}


def _retry(access: Access) -> Any:
    backoff = {"init_backoff": access.first_wait, "max_backoff": timedelta(seconds=3), "base": 2}
    return {"max_retries": _TRIES, "retry_timeout": _ALL_TRIES, "backoff": backoff}
