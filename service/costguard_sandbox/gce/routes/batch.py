"""Batch requests: several calls in one request, each answered as if it were separate.

The form is Google's page "Batching requests" (compute/docs/api/how-tos/batch) and what gcloud's apitools send: a
multipart/mixed body with an application/http request of a path only in each part; answers come in order, with
`Content-ID: <response-ID>`.
"""

from __future__ import annotations

import email.parser
import email.policy
import hashlib
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from email.message import MIMEPart
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from costguard_sandbox.gce.errors import Refused, bad_request
from costguard_sandbox.gce.routes.call import refusal

_MOST_CALLS = 1000
_OUTER_ONLY = frozenset({"content-type", "content-length", "content-transfer-encoding", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class InnerCall:
    """A call of a batch; `content_id` is as the caller wrote it, without its brackets."""

    content_id: str
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


def routes(app: ASGIApp) -> list[Route]:
    """`app` answers the inner calls, as it answers separate ones."""

    async def endpoint(request: Request) -> Response:
        try:
            calls = list(read_batch(request.headers.get("content-type", ""), await request.body()))
        except Refused as refused:
            return refusal(refused)
        answers = [await _answer(app, request, call) for call in calls]
        boundary = f"batch_{hashlib.sha256(b''.join(body for _, body in answers)).hexdigest()[:32]}"
        answered = [_part(boundary, call, *answer) for call, answer in zip(calls, answers, strict=True)]
        return Response(
            b"".join(answered) + f"--{boundary}--\r\n".encode(),
            headers={"content-type": f'multipart/mixed; boundary="{boundary}"'},
        )

    return [Route("/batch/compute/v1", endpoint, methods=["POST"])]


def read_batch(content_type: str, raw: bytes) -> Iterator[InnerCall]:
    """The calls in order. Raises Refused for anything else than a batch of at most 1000 calls."""
    head = f"content-type: {content_type}\r\n\r\n".encode()
    whole = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + raw)
    if not whole.is_multipart() or whole.get_content_type() != "multipart/mixed":
        raise bad_request("The batch request must be multipart/mixed, with one part for each call.")
    parts = list(whole.iter_parts())
    if len(parts) > _MOST_CALLS:
        raise bad_request(f"The batch request has {len(parts)} calls; at most {_MOST_CALLS} are allowed.")
    for part in parts:
        yield _inner(part)


def _inner(part: MIMEPart) -> InnerCall:
    if part.get_content_type() != "application/http":
        raise bad_request("Each part of a batch request must have the content type application/http.")
    payload = part.get_payload(decode=True)
    lines, _, rest = (payload if isinstance(payload, bytes) else b"").lstrip().partition(b"\n")
    method, _, target = lines.decode("utf-8", "replace").strip().partition(" ")
    target = target.removesuffix("HTTP/1.1").strip()
    if not method.isalpha() or not target.startswith("/compute/"):
        raise bad_request(f"A call in a batch must begin with its method and a path of this API, not {lines[:80]!r}.")
    inner = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(rest)
    body = inner.get_payload(decode=True)
    return InnerCall(
        content_id=str(part.get("Content-ID", "")).strip().removeprefix("<").removesuffix(">"),
        method=method.upper(),
        target=target,
        headers={name.lower(): str(value) for name, value in inner.items()},
        body=body.strip() if isinstance(body, bytes) else b"",
    )


async def _answer(app: ASGIApp, request: Request, call: InnerCall) -> tuple[int, bytes]:
    """Headers of the outer request apply to calls that do not set them."""
    outer = {name: value for name, value in request.headers.items() if name not in _OUTER_ONLY}
    address = urlsplit(call.target)
    scope: dict[str, Any] = {
        **request.scope,
        "method": call.method,
        "path": unquote(address.path),
        "raw_path": address.path.encode(),
        "query_string": address.query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in {**outer, **call.headers}.items()],
        "path_params": {},
    }
    status, chunks = 500, []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": call.body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            chunks.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, b"".join(chunks)


def _part(boundary: str, call: InnerCall, status: int, body: bytes) -> bytes:
    lines = [
        f"--{boundary}",
        "Content-Type: application/http",
        f"Content-ID: <response-{call.content_id}>",
        "",
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Content-Type: application/json; charset=UTF-8",
        f"Content-Length: {len(body)}",
        "",
    ]
    return "\r\n".join(lines).encode() + b"\r\n" + body + b"\r\n"
