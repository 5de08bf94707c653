"""Answers that are not Slack's, and failures that no simulated workspace has: each becomes one of our own errors."""

from __future__ import annotations

import errno
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.client import RemoteDisconnected
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.error import URLError

import pytest
from tests.slack.conftest import START
from tests.slack.samples import TEST

from costguard.errors import SlackError, SlackLimited, SlackUnavailable, SlackUncertain
from costguard.model.delivery.person import Membership
from costguard.slack.client import EVENT_TYPE, SlackNotifier
from costguard.slack.web_api import ENDPOINT, error_of

OK = b'{"ok": true}'


class Stranger(HTTPServer):
    """Answers everything with one status, some headers and one body."""

    status = 200
    body = b""
    more: tuple[tuple[str, str], ...] = ()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Stranger)
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(server.status)
        for name, value in server.more:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(server.body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    server = Stranger(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "more", "body", "posting", "asking"),
    [
        (200, (), b"<html>Sign in to the guest network</html>", SlackUncertain, SlackUnavailable),
        (200, (), b"", SlackUncertain, SlackUnavailable),
        (200, (), b"[1]", SlackUncertain, SlackUnavailable),
        (200, (), b'"ok"', SlackUncertain, SlackUnavailable),
        (200, (), b"null", SlackUncertain, SlackUnavailable),
        (200, (), b"\xff\xfe", SlackUncertain, SlackUnavailable),
        (200, (("Content-Type", "text/html; charset=klingon"),), OK, SlackUncertain, SlackUnavailable),
        (200, (("Content-Length", "100"),), OK, SlackUncertain, SlackUnavailable),
        (200, (), OK, SlackUncertain, SlackUnavailable),
        (404, (), b"<html>not here</html>", SlackUnavailable, SlackUnavailable),
        (407, (), b"a proxy wants a name", SlackUnavailable, SlackUnavailable),
        (502, (), b'{"ok": true}', SlackUncertain, SlackUnavailable),
        (429, (), b"", SlackLimited, SlackLimited),
        (429, (("Retry-After", "soon"),), b"", SlackLimited, SlackLimited),
        (400, (), b'{"ok": false, "error": "invalid_form_data"}', SlackError, SlackError),
    ],
)
def test_answers_that_are_not_slacks(
    stranger: Stranger,
    status: int,
    more: tuple[tuple[str, str], ...],
    body: bytes,
    posting: type[SlackError],
    asking: type[SlackError],
) -> None:
    """A post ends in the error that says whether it may have been done, whatever comes back."""
    stranger.status, stranger.more, stranger.body = status, more, body
    notifier = SlackNotifier("xoxb-test", f"http://127.0.0.1:{stranger.server_port}/api/")
    with pytest.raises(SlackError) as caught:
        notifier.post("#gpu-costs", TEST, "key")
    assert type(caught.value) is posting
    assert caught.value.message
    calls: list[Callable[[], object]] = [
        lambda: notifier.find("C0ANY", "key", START),
        lambda: notifier.person_of("ana@example.com"),
        lambda: notifier.open_direct("U0ANA"),
        lambda: notifier.channel_id("#gpu-costs"),
    ]
    for call in calls:
        with pytest.raises(SlackError) as caught:
            call()
        assert type(caught.value) is asking


@pytest.mark.parametrize(
    ("wrong", "certain"),
    [
        (URLError(ConnectionRefusedError(errno.ECONNREFUSED, "refused")), True),
        (URLError(socket.gaierror(-2, "Name or service not known")), True),
        (URLError(OSError(errno.ENETUNREACH, "Network is unreachable")), True),
        (URLError(ssl.SSLCertVerificationError(1, "certificate verify failed")), True),
        (URLError(TimeoutError("timed out")), False),
        (URLError(ssl.SSLEOFError(8, "EOF")), False),
        (URLError("unknown"), False),
        (TimeoutError("The read operation timed out"), False),
        (RemoteDisconnected("without response"), False),
        (ConnectionResetError(errno.ECONNRESET, "reset"), False),
        (BrokenPipeError(errno.EPIPE, "broken pipe"), False),
    ],
)
def test_only_a_connection_that_never_was_is_certain(wrong: Exception, certain: bool) -> None:
    """All else may have broken after the call was done; what only asks is unavailable either way."""
    reported = error_of(wrong, "chat.postMessage", "#gpu-costs", ENDPOINT, acts=True)
    assert type(reported) is (SlackUnavailable if certain else SlackUncertain)
    assert reported.message
    assert reported.what_next
    assert type(error_of(wrong, "users.info", "", ENDPOINT, acts=False)) is SlackUnavailable


@pytest.mark.parametrize(("said", "wait"), [("30", 30), ("0", 1), ("-5", 1), ("1e9", 3600), ("nan", 30), ("", 30)])
def test_how_long_to_wait(stranger: Stranger, said: str, wait: float) -> None:
    """Retry-After is obeyed within reason, and replaced where it makes no sense."""
    stranger.status, stranger.more = 429, (("Retry-After", said),)
    notifier = SlackNotifier("xoxb-test", f"http://127.0.0.1:{stranger.server_port}/api/")
    with pytest.raises(SlackLimited) as caught:
        notifier.open_direct("U0ANA")
    assert caught.value.retry_after == wait


@pytest.mark.parametrize(
    "body",
    [
        {"messages": True, "user": True, "channel": True, "channels": True},
        {"messages": {}, "user": [], "channel": "C0ANY", "channels": "C0ANY"},
        {"messages": None, "user": None, "channel": None, "channels": None, "response_metadata": None},
    ],
)
def test_answer_of_another_shape_says_nothing_either_way(stranger: Stranger, body: dict[str, Any]) -> None:
    """A message is not taken for unsent, nor a person for gone: it would be sent twice, or to nobody."""
    stranger.body = json.dumps({"ok": True, **body}).encode()
    notifier = SlackNotifier("xoxb-test", f"http://127.0.0.1:{stranger.server_port}/api/")
    with pytest.raises(SlackUnavailable):
        notifier.find("C0ANY", "key", START)
    with pytest.raises(SlackUnavailable):
        notifier.person_of("ana@example.com")
    with pytest.raises(SlackUnavailable):
        notifier.open_direct("U0ANA")
    with pytest.raises(SlackUnavailable):
        notifier.channel_id("#gpu-costs")


def test_parts_of_another_shape_are_missing(stranger: Stranger) -> None:
    """A person without a profile, and messages whose metadata are none, end no search."""
    parts = {"profile": 5, "enterprise_user": "E1", "team_id": "T0TEAM"}
    messages = [
        {"ts": "2.0", "metadata": True},
        {"ts": "1.0", "metadata": {"event_type": EVENT_TYPE, "event_payload": []}},
    ]
    body = {"ok": True, "team_id": "T0TEAM", "user": {"id": "U0ANA", "name": "ana", **parts}, "messages": messages}
    stranger.body = json.dumps({**body, "response_metadata": []}).encode()
    notifier = SlackNotifier("xoxb-test", f"http://127.0.0.1:{stranger.server_port}/api/")
    person = notifier.person_of("ana@example.com")
    assert person is not None
    assert (person.user_id, person.name) == ("U0ANA", "ana")
    assert notifier.find("C0ANY", "key", START) is None


def test_identity_that_names_no_workspace_is_asked_for_again(stranger: Stranger) -> None:
    """The notifier does not keep it: all people would be strangers until the next start."""
    user = {"id": "U0ANA", "team_id": "T0TEAM"}
    stranger.body = json.dumps({"ok": True, "user": user}).encode()
    notifier = SlackNotifier("xoxb-test", f"http://127.0.0.1:{stranger.server_port}/api/")
    with pytest.raises(SlackUnavailable):
        notifier.person_of("ana@example.com")
    stranger.body = json.dumps({"ok": True, "user": user, "team_id": "T0TEAM"}).encode()
    person = notifier.person_of("ana@example.com")
    assert person is not None
    assert person.membership is Membership.MEMBER
