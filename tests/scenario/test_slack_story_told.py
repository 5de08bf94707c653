"""What else people are told, and what happens when Slack is not there or somebody else speaks in its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import httpx2
import orjson
from tests.scenario.slack_story import DAY, HOUR, MINUTE, Story, buttons, shown, story

from costguard.access import requests
from costguard.clock import SystemClock
from costguard_sandbox.gce.vm import Status
from costguard_sandbox.slack.access import SIGNING_SECRET
from costguard_sandbox.slack.interactions import signed_headers

STOPPING = {"limit": "8h", "remind_every": "1h", "when_unanswered": "stop", "stop_after": 1, "grace": "1h"}


def test_slack_is_down_for_a_day(sqlite_url: str) -> None:
    """Told on /readyz and by an event; then one message, not six; and the grace begins only with that message."""
    with story(sqlite_url, presets={"t4": STOPPING}) as told:
        told.vm()
        told.later(7 * HOUR + 30 * MINUTE)  # its owner is known by now
        told.world.slack.faults.add("down")
        told.later(DAY, every=4 * HOUR)
        ready = told.get("/readyz")
        assert ready["slack_waiting"] == 1
        assert any(warning.startswith("Slack: ") for warning in ready["warnings"])
        assert told.events("SlackTrouble")
        assert (told.sent(), told.status()) == ([], Status.RUNNING)
        told.world.slack.faults.clear()
        told.later(10 * MINUTE)
        told.later(10 * MINUTE)
        assert "is still running" in shown(told.only())
        assert told.events("SlackResumed") == ["Messages to Slack are accepted again."]
        told.later(45 * MINUTE)
        assert told.status() is Status.RUNNING
        told.later(10 * MINUTE)
        told.later(5 * MINUTE)
        assert told.status() is Status.TERMINATED
        assert not any("Slack" in warning for warning in told.get("/readyz")["warnings"])


def test_people_are_not_known_while_slack_is_down(sqlite_url: str) -> None:
    """An owner who was never looked up cannot be reminded: that is told, and made up for when Slack is back."""
    with story(sqlite_url) as told:
        told.world.slack.faults.add("error", method="users.lookupByEmail", code="missing_scope")
        told.vm()
        told.later(9 * HOUR)
        assert any("the app lacks" in warning for warning in told.get("/readyz")["warnings"])
        assert "Slack refuses to look up people" in told.events("SlackTrouble")[0]
        told.world.slack.faults.clear()
        told.later(MINUTE)
        assert len(told.sent()) == 1
        assert told.get("/readyz")["warnings"] == []


def test_a_pass_by_hand_reminds_whom_it_met(sqlite_url: str) -> None:
    """The pass itself asks Slack nothing; `costguard pass` looks people up after it, and tells them in the same run."""
    with story(sqlite_url) as told:
        told.vm()
        told.world.advance(9 * HOUR)
        report = told.guard.run_pass()
        assert [type(action).__name__ for action in report.plan.actions] == ["SendReminder"]
        assert "is still running" in shown(told.only())


def test_an_archived_channel(sqlite_url: str) -> None:
    """It is named on /readyz, owners are reminded all the same, and what was kept arrives once it is there again."""
    with story(sqlite_url) as told:
        told.world.slack.archive("#gpu-costs")
        told.vm("nobodys", owner="", user="ci@acme-training.iam.gserviceaccount.com")
        told.vm()
        told.later(8 * HOUR)
        assert "trainer" in shown(told.only())
        warnings = told.get("/readyz")["warnings"]
        assert any("#gpu-costs" in warning and "archived" in warning for warning in warnings)
        told.world.slack.archive("#gpu-costs", archived=False)
        told.later(10 * MINUTE)
        assert "nobodys" in shown(told.only("#gpu-costs"))


def test_a_revoked_token(sqlite_url: str) -> None:
    """Everything waits, and it is told what to do; with the token good again the message is sent once."""
    with story(sqlite_url) as told:
        told.vm()
        told.later(7 * HOUR + 30 * MINUTE)  # its owner is known by now
        told.world.slack.tokens.invalidate("token_revoked")
        told.later(HOUR)
        told.later(10 * MINUTE)
        assert any("token" in warning for warning in told.get("/readyz")["warnings"])
        told.world.slack.tokens.reset()
        told.later(10 * MINUTE)
        told.later(10 * MINUTE)
        assert len(told.sent()) == 1


def test_an_answer_that_is_lost(sqlite_url: str) -> None:
    """The message stands in Slack, nobody heard of it: it is found, and not sent again."""
    with story(sqlite_url) as told:
        told.vm()
        told.world.slack.faults.add("lost_answer", method="chat.postMessage", count=1)
        told.later(8 * HOUR)
        told.later(5 * MINUTE, every=MINUTE)
        assert told.press(told.only(), "keep:4").ok
        assert "Kept by" in shown(told.only())


def test_digests(sqlite_url: str) -> None:
    """Each morning yesterday, on Mondays the week as well: spend, what idles, what was stopped; each once."""
    when = {"daily_digest": "09:00", "weekly_digest": "mon 09:00"}
    with story(sqlite_url, reminders=when, presets={"t4": {**STOPPING, "limit": "2h"}}) as told:
        told.vm("night")
        told.vm("cluster", "a2-highgpu-1g", owner="ben")
        told.later(DAY + HOUR, every=90 * MINUTE)
        (daily,) = [one for one in told.sent("#gpu-costs") if "GPU spend, 2 November 2026" in shown(one)]
        assert "ben@example.com" in shown(daily)
        assert "night" in shown(daily)
        told.later(5 * DAY + 20 * HOUR, every=DAY)
        told.later(4 * HOUR, every=HOUR)
        weekly = [one.text[:35] for one in told.sent("#gpu-costs") if "The week in" in shown(one)]
        assert weekly == ["GPU spend, 26 October to 1 November", "GPU spend, 2 to 8 November 2026: $5"]
        days = [one for one in told.sent("#gpu-costs") if "GPU spend" in shown(one) and "week" not in shown(one)]
        assert len(days) == len({one.text for one in days})


def test_a_budget_tells_once(sqlite_url: str) -> None:
    """Each threshold once a period, to the channel, with the figures; the next day anew."""
    budget = {"limit": 100, "period": "day", "thresholds": ["50%", "100%"], "forecast_thresholds": []}
    with story(sqlite_url, budgets={"everything": budget}) as told:
        told.vm("cluster", "a2-highgpu-8g")
        told.later(8 * HOUR, every=HOUR)
        notices = [one for one in told.sent("#gpu-costs") if "udget" in one.text]
        assert len(notices) in (1, 2)
        assert "past 50% of the $100.00 for today" in shown(notices[0])
        told.later(6 * HOUR, every=HOUR)
        assert [one for one in told.sent("#gpu-costs") if "udget" in one.text] == notices


def said(told: Story, who: str, text: str) -> tuple[str, dict[str, str]]:
    """What `/gpu` shows this person, and its buttons."""
    assert told.world.slack.interactions.command(who, "#gpu-costs", text).ok
    answer = told.world.slack.messages("#gpu-costs", ephemeral=True)[-1]
    assert answer.ephemeral_to == told.world.slack.user(who).id
    return shown(answer), buttons(answer)


def test_gpu(sqlite_url: str) -> None:
    """Lists somebody's own VMs with buttons that work, everybody's for admins, and says how it is used."""
    with story(sqlite_url, access={"admins": ["dana@example.com"]}) as told:
        told.vm()
        told.vm("other", owner="ben")
        told.later(HOUR)
        text, its = said(told, "ana", "")
        assert "Your VMs: 1 running" in text
        assert "trainer" in text
        assert "other" not in text
        stop = next(action for action in its if action.startswith("stop"))
        told.press(told.world.slack.messages("#gpu-costs", ephemeral=True)[-1], stop)
        told.later(5 * MINUTE)
        assert told.status() is Status.TERMINATED
        assert (
            "2" in said(told, "dana", "all")[0].splitlines()[0]
            or "1 running, 1 not running" in said(told, "dana", "all")[0]
        )
        assert said(told, "emi", "all")[0] == "/gpu all is for operators and admins. /gpu lists your own VMs."
        assert said(told, "emi", "")[0] == "Your VMs: none. Costguard knows you as emi@example.com."
        assert "/gpu all lists every VM" in said(told, "emi", "help")[0]
        assert said(told, "emi", "brew coffee")[0].startswith("There is no command /gpu brew coffee.")


def stored(told: Story) -> int:
    with told.guard.database.read() as connection:
        return len(requests.open_requests(connection))


def post(told: Story, body: bytes, headers: Mapping[str, str]) -> int:
    return httpx2.post(f"{told.url}/slack/interactions", content=body, headers=dict(headers)).status_code


def pressed(told: Story, **changes: Any) -> bytes:
    """What Slack would send for a press of "Stop now", with something of it changed."""
    asked = told.only()
    told.world.slack.interactions.request_url = ""  # kept to ourselves
    payload = dict(told.world.slack.interactions.click("ana", asked.channel, asked.ts, "stop").payload)
    return urlencode({"payload": orjson.dumps({**payload, **changes}).decode()}).encode()


def test_nobody_else_speaks_for_slack(sqlite_url: str) -> None:
    """Forged, old, repeated, cut short, oversized or made up: 401, counted by reason, and nothing is stored."""
    with story(sqlite_url) as told:
        told.vm()
        told.later(8 * HOUR)
        body, now = pressed(told), int(SystemClock().now().timestamp())
        good = dict(signed_headers(SIGNING_SECRET, body, now))
        good["content-type"] = "application/x-www-form-urlencoded"

        def signed(raw: bytes, secret: str = SIGNING_SECRET, ago: int = 0) -> dict[str, str]:
            return {**good, **signed_headers(secret, raw, now - ago)}

        assert post(told, body, {}) == 401
        assert post(told, body, signed(body, "another secret")) == 401
        assert post(told, body, signed(body, ago=360)) == 401
        assert post(told, body[:-1], good) == 401
        for odd in (b"", b"payload=", b"payload=%7B%7D", pressed(told, actions=[]), pressed(told, user=None), b"\xff"):
            assert post(told, odd, signed(odd)) == 401
        huge = b"payload=" + b"x" * 300_000
        assert post(told, huge, signed(huge)) == 401
        assert stored(told) == 0
        assert post(told, body, good) == 200
        assert post(told, body, good) == 401
        assert stored(told) == 1
        refused = told.get("/readyz")["slack_refused"]
        assert refused["replayed"] == 1
        assert refused["oversized"] == 1
        assert sum(refused.values()) == 12
