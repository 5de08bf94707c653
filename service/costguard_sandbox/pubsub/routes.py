"""The routes of the API, under /v1/projects/P/topics and /v1/projects/P/subscriptions."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from costguard_sandbox.pubsub.broker import Broker, PubsubRefused

_TOPIC = "/v1/projects/{project}/topics/{name}"
_SUBSCRIPTION = "/v1/projects/{project}/subscriptions/{name}"
_LONG_POLL_S = 5.0  # real seconds; on a clock that stands still a poll ends at once
_LOOKS_EVERY_S = 0.02
Handler = Callable[[str, dict[str, Any]], Awaitable[Any]]


def routes(broker: Broker, settle: Callable[[], None]) -> list[Route]:
    """Topics and subscriptions of all projects, also of those that have no VMs.

    `settle` lets everything happen that is due, so that a pull gets what was published until now.
    """

    def received(name: str, most: int) -> list[dict[str, Any]]:
        settle()
        return broker.pull(name, most)

    async def make_topic(name: str, _body: dict[str, Any]) -> Any:
        broker.add_topic(name)
        return {"name": name}

    async def publish(name: str, body: dict[str, Any]) -> Any:
        messages = [(_data(one), one.get("attributes") or {}) for one in body.get("messages") or ()]
        if not messages:
            raise PubsubRefused(400, "INVALID_ARGUMENT", "The value for message_count is too small. You passed 0.")
        return {"messageIds": broker.publish(name, messages)}

    async def make_subscription(name: str, body: dict[str, Any]) -> Any:
        return broker.add_subscription(name, str(body.get("topic")), int(body.get("ackDeadlineSeconds") or 10)).shown()

    async def read_subscription(name: str, _body: dict[str, Any]) -> Any:
        return broker.subscription(name).shown()

    async def delete_subscription(name: str, _body: dict[str, Any]) -> Any:
        broker.remove_subscription(name)
        return {}

    async def pull(name: str, body: dict[str, Any]) -> Any:
        most = int(body.get("maxMessages") or 0)
        waits = 0.0 if body.get("returnImmediately") or not broker.clock.speed else _LONG_POLL_S
        while not (messages := received(name, most)) and waits > 0:
            waits -= _LOOKS_EVERY_S
            await asyncio.sleep(_LOOKS_EVERY_S)
        return {"receivedMessages": messages} if messages else {}

    async def acknowledge(name: str, body: dict[str, Any]) -> Any:
        broker.acknowledge(name, _ids(body))
        return {}

    async def modify(name: str, body: dict[str, Any]) -> Any:
        broker.modify_deadline(name, _ids(body), int(body.get("ackDeadlineSeconds") or 0))
        return {}

    return [
        _route(_TOPIC, "PUT", make_topic),
        _route(f"{_TOPIC}:publish", "POST", publish),
        _route(_SUBSCRIPTION, "PUT", make_subscription),
        _route(_SUBSCRIPTION, "GET", read_subscription),
        _route(_SUBSCRIPTION, "DELETE", delete_subscription),
        _route(f"{_SUBSCRIPTION}:pull", "POST", pull),
        _route(f"{_SUBSCRIPTION}:acknowledge", "POST", acknowledge),
        _route(f"{_SUBSCRIPTION}:modifyAckDeadline", "POST", modify),
    ]


def _route(path: str, method: str, handler: Handler) -> Route:
    async def endpoint(request: Request) -> Response:
        kind = "topics" if "/topics/" in path else "subscriptions"
        name = f"projects/{request.path_params['project']}/{kind}/{request.path_params['name']}"
        try:
            raw = await request.body()
            return _json(await handler(name, orjson.loads(raw) if raw else {}))
        except PubsubRefused as refused:
            error = {"code": refused.code, "message": refused.message, "status": refused.status}
            return _json({"error": error}, refused.code)

    # A name ends before the colon of a verb.
    return Route(path.replace("{name}", "{name:str}"), endpoint, methods=[method])


def _ids(body: dict[str, Any]) -> list[str]:
    ids = body.get("ackIds") or []
    if not ids:
        raise PubsubRefused(400, "INVALID_ARGUMENT", "No ack ids specified.")
    return [str(one) for one in ids]


def _data(message: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(message.get("data") or "", validate=True)
    except binascii.Error:
        words = "Invalid value at 'messages[0].data' (TYPE_BYTES), Base64 decoding failed."
        raise PubsubRefused(400, "INVALID_ARGUMENT", words) from None


def _json(answer: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(answer), status_code=status, media_type="application/json; charset=UTF-8")
