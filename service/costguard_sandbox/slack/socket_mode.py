"""Slack's side of Socket Mode: https://docs.slack.dev/apis/events-api/using-socket-mode."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from typing import Any

import orjson
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from costguard_sandbox.slack.model import APP_ID, make_id

Answer = dict[str, Any]


class _Socket:
    """A connection of the app. `put` may be called from any thread."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def put(self, frame: Mapping[str, Any]) -> None:
        self._loop.call_soon_threadsafe(self.queue.put_nowait, frame)


class Sockets:
    """The app's open connections, used in turn. A ticket opens one connection."""

    def __init__(self) -> None:
        self.delivered: list[tuple[str, str]] = []  # (envelope id, type), acknowledged or not
        self._lock = threading.Lock()
        self._tickets: set[str] = set()
        self._open: list[_Socket] = []
        self._waiting: dict[str, Future[Answer]] = {}
        self._issued = 0

    @property
    def connected(self) -> int:
        return len(self._open)

    def ticket(self) -> str:
        with self._lock:
            self._issued += 1
            ticket = make_id("", f"ticket/{self._issued}").lower()
            self._tickets.add(ticket)
            return ticket

    def send(self, kind: str, payload: Mapping[str, Any], patience: float) -> Answer | None:
        """Send an envelope and wait for its acknowledgement; None when none came within `patience` seconds.

        Not from the server's event loop, which has to read the acknowledgement.
        """
        future: Future[Answer] = Future()
        with self._lock:
            if not self._open:
                return None
            self._issued += 1
            envelope = make_id("", f"envelope/{self._issued}").lower()
            socket = self._open[self._issued % len(self._open)]
            self._waiting[envelope] = future
            self.delivered.append((envelope, kind))
        socket.put({"envelope_id": envelope, "type": kind, "payload": payload, "accepts_response_payload": True})
        try:
            return future.result(patience)
        except NoAnswer:
            return None
        finally:
            self._waiting.pop(envelope, None)

    def disconnect(self, reason: str = "refresh_requested") -> None:
        """Ask the app to reconnect, as Slack does every few hours."""
        for socket in list(self._open):
            socket.put({"type": "disconnect", "reason": reason, "debug_info": {"host": "sandbox"}})

    def route(self) -> WebSocketRoute:
        return WebSocketRoute("/slack/socket", self._serve)

    async def _serve(self, websocket: WebSocket) -> None:
        ticket = websocket.query_params.get("ticket", "")
        with self._lock:
            is_valid = ticket in self._tickets
            self._tickets.discard(ticket)
        if not is_valid:
            await websocket.close(4404)
            return
        socket = _Socket()
        hello = {
            "type": "hello",
            "connection_info": {"app_id": APP_ID},
            "num_connections": len(self._open) + 1,
            "debug_info": {"host": "sandbox", "build_number": 1, "approximate_connection_time": 18060},
        }
        socket.put(hello)
        self._open.append(socket)  # before the app learns that it is connected, so that it misses nothing
        writer = None
        try:
            await websocket.accept()
            writer = asyncio.create_task(self._write(websocket, socket))
            while True:
                self._acknowledge(await websocket.receive_text())
        except WebSocketDisconnect:
            pass
        finally:
            self._open.remove(socket)
            if writer is not None:
                writer.cancel()

    async def _write(self, websocket: WebSocket, socket: _Socket) -> None:
        while True:
            frame = await socket.queue.get()
            await websocket.send_text(orjson.dumps(frame).decode())
            if frame["type"] == "disconnect":
                await websocket.close()
                return

    def _acknowledge(self, raw: str) -> None:
        try:
            frame = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return
        future = self._waiting.get(str(frame.get("envelope_id"))) if isinstance(frame, dict) else None
        if future is not None and not future.done():
            future.set_result(frame.get("payload") or {})
