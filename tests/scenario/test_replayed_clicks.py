"""A button click that an attacker recorded is delivered again: in its five minutes, to a server that never saw it."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlencode

import httpx2
import orjson
from tests.scenario.slack_story import HOUR, MINUTE, Story, served, story

from costguard.clock import SystemClock
from costguard.main.slack_intake import build_slack_intake
from costguard_sandbox.gce.vm import Status
from costguard_sandbox.slack.access import SIGNING_SECRET
from costguard_sandbox.slack.interactions import signed_headers


def recorded(team: Story, action: str) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a click on the only reminder, as a proxy on the way could keep them."""
    payload = dict(team.click(team.only(), action).payload)
    body = urlencode({"payload": orjson.dumps(payload).decode()}).encode()
    signed = signed_headers(SIGNING_SECRET, body, int(SystemClock().now().timestamp()))
    return body, {**signed, "content-type": "application/x-www-form-urlencoded"}


def delivered_to_another(team: Story, body: bytes, headers: dict[str, str]) -> int:
    """The status of a server that was just started, and so remembers no signatures."""
    guard = team.guard
    intake = build_slack_intake(
        guard.settings, guard.rules, guard.database, guard.clock, lambda: None, by_http=True, by_socket=False
    )
    assert intake is not None
    try:
        with served(guard, intake) as url:
            status = httpx2.post(f"{url}/slack/interactions", content=body, headers=headers).status_code
            intake.handler.wait_until_stored()
            return status
    finally:
        intake.close()


def test_a_click_counts_once_whichever_server_hears_it(sqlite_url: str) -> None:
    """The click gives one request, one event and one extension, though two other servers took the same signature."""
    with story(sqlite_url) as team:
        team.vm()
        team.later(8 * HOUR)
        body, headers = recorded(team, "keep:4")
        assert [delivered_to_another(team, body, headers) for _ in range(2)] == [200, 200]
        team.later(MINUTE)
        assert len(team.events("RequestMade")) == 1
        assert len(team.events("LifetimeKept")) == 1
        assert delivered_to_another(team, body, headers) == 200  # after it was carried out
        team.later(MINUTE)
        assert len(team.events("RequestMade")) == 1


def test_a_recorded_stop_does_not_stop_the_next_run(sqlite_url: str) -> None:
    """The VM was started again in those minutes: the click was about the run before."""
    with story(sqlite_url) as team:
        team.vm()
        team.later(8 * HOUR)
        body, headers = recorded(team, "stop")
        team.later(2 * MINUTE, every=timedelta(seconds=30))
        assert team.status() is Status.TERMINATED
        team.world.start("acme-training", "trainer", "ana@example.com")
        team.later(2 * MINUTE, every=timedelta(seconds=30))
        assert team.status() is Status.RUNNING
        assert delivered_to_another(team, body, headers) == 200
        team.later(5 * MINUTE, every=MINUTE)
        assert team.status() is Status.RUNNING
