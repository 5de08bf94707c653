"""Answers that are not Slack's, and failures that no simulated workspace has: each becomes one of our own errors."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
from collections.abc import Iterator
from http.client import RemoteDisconnected
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.error import URLError

import pytest
from tests.slack.conftest import START
from tests.slack.samples import TEST

from costguard.errors import SlackError, SlackLimited, SlackUnavailable, SlackUncertain
from costguard.slack.client import SlackNotifier
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
        (200, (), OK, SlackUncertain, None),
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
    asking: type[SlackError] | None,
) -> None:
    """A post ends in the error that says whether it may have been done, whatever comes back."""
    stranger.status, stranger.more, stranger.body = status, more, body
    notifier = SlackNotifier("xoxb-test", f"http://127.0.0.1:{stranger.server_port}/api/")
    with pytest.raises(SlackError) as caught:
        notifier.post("#gpu-costs", TEST, "key")
    assert type(caught.value) is posting
    assert caught.value.message
    if asking is None:
        assert notifier.find("C0ANY", "key", START) is None
        assert notifier.person_of("ana@example.com") is None
        return
    with pytest.raises(SlackError) as caught:
        notifier.find("C0ANY", "key", START)
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
