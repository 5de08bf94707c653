"""Incoming button clicks and commands from Slack.

Over HTTP they come to the process that serves, over a socket to the one that watches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slack_sdk import WebClient

from costguard.access.rules import Rules
from costguard.clock import SystemClock
from costguard.db.transaction import Database
from costguard.messages.clicks import InteractionHandler
from costguard.messages.reminder import ReminderComposer
from costguard.model.ports import Clock
from costguard.settings import Settings
from costguard.slack.client import SlackNotifier
from costguard.slack.incoming import InteractionDispatcher, SignedRequests
from costguard.slack.socket import Socket
from costguard.slack.web_api import ENDPOINT


@dataclass(frozen=True, slots=True)
class SlackIntake:
    """Handles clicks and commands. `signed` is None without a signing secret, `socket` without Socket Mode."""

    handler: InteractionHandler
    dispatcher: InteractionDispatcher
    signed: SignedRequests | None
    socket: Socket | None

    @property
    def trouble(self) -> str:
        """Explains why nothing can come in by the socket; "" when it can, or should not."""
        return self.socket.trouble if self.socket is not None else ""

    def open(self) -> None:
        if self.socket is not None:
            self.socket.start()

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
        self.handler.close()


def build_slack_intake(
    settings: Settings,
    rules: Rules,
    database: Database,
    clock: Clock,
    wake: Callable[[], None],
    *,
    by_http: bool = False,
    by_socket: bool = False,
) -> SlackIntake | None:
    """The ways in that the settings have, of those that are wanted; None without any. `wake` asks for a pass."""
    slack = settings.slack
    if slack is None:
        return None
    signing_secret = slack.signing_secret if by_http else None
    app_token = slack.app_token if by_socket and slack.socket_mode else None
    if signing_secret is None and app_token is None:
        return None
    token, endpoint = slack.token.get_secret_value(), slack.endpoint or ENDPOINT
    cards = ReminderComposer(rules, slack.url or "").cards
    handler = InteractionHandler(database, clock, rules, SlackNotifier(token, endpoint), cards, wake)
    dispatcher = InteractionDispatcher(handler.click, handler.command)
    # Slack signs with real time, whatever the guard's clock says.
    signed = (
        SignedRequests(signing_secret.get_secret_value(), SystemClock(), dispatcher)
        if signing_secret is not None
        else None
    )
    socket = None
    if app_token is not None:
        socket = Socket(app_token.get_secret_value(), WebClient(token, endpoint), dispatcher)
    return SlackIntake(handler, dispatcher, signed, socket)
