"""Socket Mode, for teams that open no port: clicks and commands by the SDK's own client."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

import structlog
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.builtin import SocketModeClient
from slack_sdk.socket_mode.client import BaseSocketModeClient

from costguard.errors import CostguardError
from costguard.model.backoff import Backoff
from costguard.model.delivery.interaction import ButtonClick, JobClick, SlashCommand
from costguard.slack import payloads
from costguard.slack.incoming import InteractionDispatcher
from costguard.slack.payloads import Envelope

log = structlog.get_logger(__name__)

_BACKOFF = Backoff(timedelta(seconds=1), timedelta(minutes=1))  # between attempts to connect at the start
_CLOSE_PATIENCE = 5.0  # seconds; all of it is needed only where Slack does not answer


class Socket:
    """Receives clicks and commands from start() to close(), and reconnects automatically.

    `web` reaches Slack; the app-level token, which begins with `xapp-`, is for the socket alone.
    """

    def __init__(
        self, app_token: str, web: WebClient, dispatcher: InteractionDispatcher, ping_every: float = 5.0
    ) -> None:
        self._app_token = app_token
        self._web = web
        self._dispatcher = dispatcher
        self._ping_every = ping_every
        self._stop = threading.Event()
        self._client: SocketModeClient | None = None
        self._connecting: threading.Thread | None = None
        self._last_error = ""

    @property
    def trouble(self) -> str:
        """Explains why nothing can come in now; "" when it can."""
        if self._client is None or self._client.is_connected():
            return ""
        return f"There is no connection to Slack's Socket Mode{self._last_error}; it is tried again by itself."

    def start(self) -> None:
        """Returns at once: Slack may be down, and the guard must start all the same."""
        quiet = logging.getLogger("costguard.slack.sdk")
        quiet.setLevel(logging.CRITICAL)  # at DEBUG it logs what people wrote; what fails is in `trouble`
        client = SocketModeClient(self._app_token, quiet, self._web, ping_interval=self._ping_every)
        if proxy_bypass(urlsplit(self._web.base_url).hostname or ""):
            client.proxy = None  # the SDK reads HTTPS_PROXY, and not NO_PROXY
        # Not a request listener: those are not told of what the SDK finds malformed.
        client.message_listeners.append(self._take)
        self._client = client
        self._connecting = threading.Thread(target=self._connect, args=(client,), name="socket", daemon=True)
        self._connecting.start()

    def close(self) -> None:
        """Takes up to 5 s. The client's threads end by themselves where Slack keeps one of them waiting longer."""
        self._stop.set()
        if self._client is None or self._connecting is None:
            return
        self._connecting.join(_CLOSE_PATIENCE)
        _hang_up(self._client)
        closing = threading.Thread(target=self._client.close, name="socket-close", daemon=True)
        closing.start()
        closing.join(_CLOSE_PATIENCE)

    def _connect(self, client: SocketModeClient) -> None:
        """Connects, until it succeeds once: from then on the client itself looks after its connection."""
        failures = 0
        while not self._stop.is_set():
            try:
                client.connect_to_new_endpoint()
            except Exception as error:  # the SDK raises whatever its sockets do
                code = error.response.get("error") if isinstance(error, SlackApiError) else ""
                self._last_error = f" ({code or error})"
                failures += 1
                wait = _BACKOFF.after(failures).total_seconds()
                log.error("socket_not_connected", error=code or str(error), try_again_in=wait)
                self._stop.wait(wait)
            else:
                self._last_error = ""
                return

    def _take(self, client: BaseSocketModeClient, message: dict[str, Any], _raw: str | None = None) -> None:
        try:
            envelope = payloads.envelope_of(message)
        except ValueError:
            self._dispatcher.refuse("malformed")
            return
        if envelope is None:
            return
        answer: Mapping[str, object] = {}
        try:
            interaction = _understood(envelope)
        except ValueError:
            self._dispatcher.refuse("malformed")  # and acknowledged, or Slack would send it again
        else:
            try:
                answer = self._dispatcher.take(interaction)
            except Exception as error:  # not acknowledged: Slack tells the person that it failed
                log.error("socket_request_failed", error=str(error), exc_info=not isinstance(error, CostguardError))
                return
        acknowledgement: dict[str, object] = {"envelope_id": envelope.id}
        if answer:
            acknowledgement["payload"] = answer
        client.send_message(json.dumps(acknowledgement))


def _hang_up(client: SocketModeClient) -> None:
    """Wakes the client's threads, which would look only seconds later whether they are to end."""
    client.closed = True
    client.message_queue.put(None)  # anyone who waits for the next message finds that there is none
    session = client.current_session
    if session is not None and session.sock is not None:
        with suppress(OSError):  # Slack may have been quicker
            session.sock.shutdown(socket.SHUT_RDWR)


def _understood(envelope: Envelope) -> ButtonClick | JobClick | SlashCommand | None:
    match envelope.kind:
        case "interactive":
            return payloads.click_of(envelope.payload)
        case "slash_commands":
            return payloads.command_of(envelope.payload)
        case _:
            raise ValueError("it is nothing that we asked for")
