"""A press in the simulated workspace becomes a stored request, over both ways in, with everything real between."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from slack_sdk import WebClient
from sqlalchemy import Connection
from tests.api import rows
from tests.authenticators import keyed
from tests.fakes import HandClock
from tests.serving import serving
from tests.slack.samples import CARD
from tests.waiting import until

from costguard.access.rules import Access, Rules
from costguard.api.app import create_app
from costguard.api.deps import DaemonStatus, Deps
from costguard.clock import SystemClock
from costguard.db.transaction import Database
from costguard.messages import outbox_rows
from costguard.messages.clicks import InteractionHandler
from costguard.model.delivery.message import Button, VmCard
from costguard.model.reminder import Request, RequestKind, Subject, SubjectKind
from costguard.reminders import request_rows
from costguard.slack.client import SlackNotifier
from costguard.slack.incoming import InteractionDispatcher, SignedRequests
from costguard.slack.payloads import pack
from costguard.slack.socket import Socket
from costguard_sandbox.slack.access import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET
from costguard_sandbox.slack.workspace import Workspace

ANA = "ana@example.com"
RULES = Rules({}, access=Access(viewers=frozenset({"@example.com"})))


def cards(
    connection: Connection, subjects: Sequence[Subject], now: datetime
) -> list[tuple[VmCard, tuple[Button, ...], str]]:
    return [(replace(CARD, subject=subject), (Button(RequestKind.STOP, "Stop now"),), "runs") for subject in subjects]


class Guard:
    """A handler at a dispatcher, and the app that it is served by."""

    def __init__(self, database: Database, notifier: SlackNotifier) -> None:
        self.database = database
        self.woken = threading.Event()
        clock = HandClock(rows.NOW)
        self.handler = InteractionHandler(
            database, clock, RULES, notifier, cards, self.woken.set, timedelta(seconds=10)
        )
        self.dispatcher = InteractionDispatcher(self.handler.click, self.handler.command)
        self.door = SignedRequests(SIGNING_SECRET, SystemClock(), self.dispatcher)
        with database.write() as connection:
            instance = rows.instance(connection, "trainer-7", owner=ANA)
            lifetime = rows.lifetime(connection, instance, rows.NOW - timedelta(hours=9))
        self.subject = Subject(SubjectKind.RUN, instance, lifetime)
        self.app = create_app(
            Deps(
                database=database,
                clock=clock,
                rules=RULES,
                authenticator=keyed("s3cret"),
                version="1.2.3",
                stale_after=timedelta(minutes=10),
                status=lambda: DaemonStatus(),
                slack=self.door,
            )
        )

    @property
    def open(self) -> list[Request]:
        with self.database.read() as connection:
            return [request for _, request in request_rows.open_requests(connection)]


@pytest.fixture
def guard(sqlite_database: Database, notifier: SlackNotifier) -> Iterator[Guard]:
    guard = Guard(sqlite_database, notifier)
    yield guard
    guard.handler.close()


def posted(endpoint: str, subject: Subject) -> tuple[str, str]:
    """A message with one button; its channel and ts."""
    button = {
        "type": "button",
        "action_id": "keep:4",
        "value": pack(subject, RequestKind.KEEP, 4),
        "text": {"type": "plain_text", "text": "Keep 4 h"},
    }
    client = WebClient(BOT_TOKEN, base_url=endpoint, timeout=30)
    sent = client.chat_postMessage(channel="gpu-costs", text="x", blocks=[{"type": "actions", "elements": [button]}])
    return sent["channel"], sent["ts"]


def test_a_signed_press_becomes_a_request(endpoint: str, slack: Workspace, guard: Guard) -> None:
    """Pressed, signed, sent, verified, looked up, stored: once, by who pressed, and the guard is woken."""
    with serving(guard.app) as url:
        slack.interactions.request_url = f"{url}/slack/interactions"
        delivery = slack.interactions.click("ana", *posted(endpoint, guard.subject), "keep:4")
    assert (delivery.ok, delivery.over, delivery.status, delivery.body) == (True, "http", 200, b"{}")
    assert guard.woken.wait(30)
    (request,) = guard.open
    assert (request.by, request.kind, request.subject, request.hours) == (ANA, RequestKind.KEEP, guard.subject, 4)
    assert guard.dispatcher.refused == {}


def test_a_command_shows_a_list_whose_buttons_work(endpoint: str, slack: Workspace, guard: Guard) -> None:
    """`/gpu` is answered for one person's eyes, and a button of that answer is a press like any other."""
    with serving(guard.app) as url:
        slack.interactions.request_url = f"{url}/slack/interactions"
        assert slack.interactions.command("ana", "gpu-costs").ok
        (shown,) = slack.messages("gpu-costs", ephemeral=True)
        assert shown.ephemeral_to == slack.user("ana").id
        (button,) = [
            element["action_id"]
            for block in shown.blocks
            if block["type"] == "actions"
            for element in block["elements"]
        ]
        assert slack.interactions.click("ana", "gpu-costs", shown.ts, button).ok
    assert [(request.by, request.kind) for request in guard.open] == [(ANA, RequestKind.STOP)]


def test_a_forged_press_is_refused_and_shown_as_failed(endpoint: str, slack: Workspace, guard: Guard) -> None:
    """Another secret, an old signature, garbage at the address: 401, counted, and nothing is stored."""
    with serving(guard.app) as url:
        slack.interactions.request_url = f"{url}/slack/interactions"
        message = posted(endpoint, guard.subject)
        slack.interactions.signing_secret = "another"
        assert slack.interactions.click("ana", *message, "keep:4").status == 401
        slack.interactions.signing_secret = SIGNING_SECRET
        right = slack.interactions.now
        slack.interactions.now = lambda: right() - timedelta(minutes=6)
        assert slack.interactions.click("ana", *message, "keep:4").error == "dispatch_failed"
    assert guard.dispatcher.refused == {"forged": 1, "stale": 1}
    assert guard.open == []


def test_a_guest_gets_a_private_explanation(endpoint: str, slack: Workspace, guard: Guard) -> None:
    """A button and a command of someone who is no full member do nothing, and say why to them alone."""
    ana = replace(slack.user("ana"), is_ultra_restricted=True)
    slack.users[ana.id] = ana
    with serving(guard.app) as url:
        slack.interactions.request_url = f"{url}/slack/interactions"
        assert slack.interactions.click("ana", *posted(endpoint, guard.subject), "keep:4").ok
        assert guard.woken.wait(30)
        assert slack.interactions.command("ana", "gpu-costs").ok
    assert guard.open == []
    with guard.database.read() as connection:
        (reply,) = outbox_rows.waiting(connection, rows.NOW, 10)
    (shown,) = (message for message in slack.messages("gpu-costs", ephemeral=True) if message.ephemeral_to)
    assert (reply.address, shown.ephemeral_to) == (ana.id, ana.id)
    assert reply.data["text"].startswith("You are a guest in this Slack workspace")
    assert shown.text == reply.data["text"]


def test_answers_wait_for_no_call(endpoint: str, slack: Workspace, guard: Guard) -> None:
    """While Slack is still being asked who pressed, the press is answered; it is stored once that is known."""
    slack.faults.add("slow", method="users.info", seconds=2)
    with serving(guard.app) as url:
        slack.interactions.request_url = f"{url}/slack/interactions"
        assert slack.interactions.click("ana", *posted(endpoint, guard.subject), "keep:4").ok
        assert guard.open == []
        assert guard.woken.wait(30)
    assert [request.by for request in guard.open] == [ANA]


def test_both_ways_in_lead_to_the_same_handler(endpoint: str, slack: Workspace, guard: Guard) -> None:
    """The socket, when open, takes everything, and a press is stored all the same."""
    connection = Socket(APP_TOKEN, WebClient(base_url=endpoint, timeout=30), guard.dispatcher)
    connection.start()
    try:
        until(lambda: not connection.trouble and bool(slack.sockets.connected))
        delivery = slack.interactions.click("ana", *posted(endpoint, guard.subject), "keep:4")
        assert (delivery.ok, delivery.over) == (True, "socket")
        assert guard.woken.wait(30)
    finally:
        connection.close()
    assert [request.by for request in guard.open] == [ANA]
