"""People read other messages, and Slack is away or a stranger speaks in its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import httpx2
import orjson
from tests.scenario.slack_story import DAY, HOUR, MINUTE, Story, buttons, shown, story

from costguard.clock import SystemClock
from costguard.reminders import request_rows
from costguard_sandbox.gce.vm import Status
from costguard_sandbox.slack.access import SIGNING_SECRET
from costguard_sandbox.slack.interactions import signed_headers

STOPPING = {"limit": "8h", "remind_every": "1h", "when_unanswered": "stop", "stop_after": 1, "grace": "1h"}


def test_slack_is_down_for_a_day(sqlite_url: str) -> None:
    """Told on /readyz and by an event; then one message, not six; and the grace begins only with that message."""
    with story(sqlite_url, presets={"t4": STOPPING}) as team:
        team.vm()
        team.later(7 * HOUR + 30 * MINUTE)  # its owner is known by now
        team.world.slack.faults.add("down")
        team.later(DAY, every=4 * HOUR)
        ready = team.get("/readyz")
        assert ready["slack_waiting"] == 1
        assert any(warning.startswith("Slack: ") for warning in ready["warnings"])
        assert team.events("SlackTrouble")
        assert (team.sent(), team.status()) == ([], Status.RUNNING)
        team.world.slack.faults.clear()
        team.later(10 * MINUTE)
        team.later(10 * MINUTE)
        assert "is still running" in shown(team.only())
        assert team.events("SlackResumed") == ["Messages to Slack are accepted again."]
        team.later(45 * MINUTE)
        assert team.status() is Status.RUNNING
        team.later(10 * MINUTE)
        team.later(5 * MINUTE)
        assert team.status() is Status.TERMINATED
        assert not any("Slack" in warning for warning in team.get("/readyz")["warnings"])


def test_people_are_not_known_while_slack_is_down(sqlite_url: str) -> None:
    """An owner who was never looked up cannot be reminded: a warning says so; it is made up for once Slack is back."""
    with story(sqlite_url) as team:
        team.world.slack.faults.add("error", method="users.lookupByEmail", code="missing_scope")
        team.vm()
        team.later(9 * HOUR)
        assert any("the app lacks" in warning for warning in team.get("/readyz")["warnings"])
        assert "Slack refuses to look up people" in team.events("SlackTrouble")[0]
        team.world.slack.faults.clear()
        team.later(MINUTE)
        assert len(team.sent()) == 1
        assert team.get("/readyz")["warnings"] == []


def test_a_pass_by_hand_reminds_whom_it_met(sqlite_url: str) -> None:
    """The pass itself asks Slack nothing; `costguard pass` looks people up after it, and tells them in the same run."""
    with story(sqlite_url) as team:
        team.vm()
        team.world.advance(9 * HOUR)
        report = team.guard.by_hand.run()
        assert [type(action).__name__ for action in report.plan.actions] == ["SendReminder"]
        assert "is still running" in shown(team.only())


def test_an_archived_channel(sqlite_url: str) -> None:
    """It is named on /readyz, owners are reminded all the same, and what was kept arrives once it is there again."""
    with story(sqlite_url) as team:
        team.world.slack.archive("#gpu-costs")
        team.vm("nobodys", owner="", user="ci@acme-training.iam.gserviceaccount.com")
        team.vm()
        team.later(8 * HOUR)
        assert "trainer" in shown(team.only())
        warnings = team.get("/readyz")["warnings"]
        assert any("#gpu-costs" in warning and "archived" in warning for warning in warnings)
        team.world.slack.archive("#gpu-costs", archived=False)
        team.later(10 * MINUTE)
        assert "nobodys" in shown(team.only("#gpu-costs"))


def test_a_revoked_token(sqlite_url: str) -> None:
    """Everything waits, and a warning says what to do; with the token good again the message is sent once."""
    with story(sqlite_url) as team:
        team.vm()
        team.later(7 * HOUR + 30 * MINUTE)  # its owner is known by now
        team.world.slack.tokens.invalidate("token_revoked")
        team.later(HOUR)
        team.later(10 * MINUTE)
        assert any("token" in warning for warning in team.get("/readyz")["warnings"])
        team.world.slack.tokens.reset()
        team.later(10 * MINUTE)
        team.later(10 * MINUTE)
        assert len(team.sent()) == 1


def test_an_answer_that_is_lost(sqlite_url: str) -> None:
    """The message stands in Slack, nobody heard of it: it is found, and not sent again."""
    with story(sqlite_url) as team:
        team.vm()
        team.world.slack.faults.add("lost_answer", method="chat.postMessage", count=1)
        team.later(8 * HOUR)
        team.later(5 * MINUTE, every=MINUTE)
        assert team.press(team.only(), "keep:4").ok
        assert "Kept by" in shown(team.only())


def test_digests(sqlite_url: str) -> None:
    """Each morning yesterday, on Mondays the week as well: spend, what idles, what was stopped; each once."""
    when = {"daily_digest": "09:00", "weekly_digest": "mon 09:00"}
    with story(sqlite_url, reminders=when, presets={"t4": {**STOPPING, "limit": "2h"}}) as team:
        team.vm("night")
        team.vm("cluster", "a2-highgpu-1g", owner="ben")
        team.later(DAY + HOUR, every=90 * MINUTE)
        (daily,) = [one for one in team.sent("#gpu-costs") if "GPU spend, 2 November 2026" in shown(one)]
        assert "ben@example.com" in shown(daily)
        assert "night" in shown(daily)
        team.later(5 * DAY + 20 * HOUR, every=DAY)
        team.later(4 * HOUR, every=HOUR)
        weekly = [one.text[:35] for one in team.sent("#gpu-costs") if "The week in" in shown(one)]
        assert weekly == ["GPU spend, 26 October to 1 November", "GPU spend, 2 to 8 November 2026: $5"]
        days = [one for one in team.sent("#gpu-costs") if "GPU spend" in shown(one) and "week" not in shown(one)]
        assert len(days) == len({one.text for one in days})


def test_a_budget_tells_once(sqlite_url: str) -> None:
    """Each threshold once a period, to the channel, with the figures; the next day again."""
    budget = {"limit": 100, "period": "day", "thresholds": ["50%", "100%"], "forecast_thresholds": []}
    with story(sqlite_url, budgets={"everything": budget}) as team:
        team.vm("cluster", "a2-highgpu-8g")
        team.later(8 * HOUR, every=HOUR)
        notices = [one for one in team.sent("#gpu-costs") if "udget" in one.text]
        assert len(notices) in (1, 2)
        assert "past 50% of the $100.00 for today" in shown(notices[0])
        team.later(6 * HOUR, every=HOUR)
        assert [one for one in team.sent("#gpu-costs") if "udget" in one.text] == notices


def said(team: Story, who: str, text: str) -> tuple[str, dict[str, str]]:
    """Returns what `/gpu` shows this person, and its buttons."""
    assert team.world.slack.interactions.command(who, "#gpu-costs", text).ok
    answer = team.world.slack.messages("#gpu-costs", ephemeral=True)[-1]
    assert answer.ephemeral_to == team.world.slack.user(who).id
    return shown(answer), buttons(answer)


def test_gpu(sqlite_url: str) -> None:
    """Lists the caller's own VMs with buttons that work, everybody's for admins, and says how it is used."""
    with story(sqlite_url, access={"admins": ["dana@example.com"]}) as team:
        team.vm()
        team.vm("other", owner="ben")
        team.later(HOUR)
        text, its = said(team, "ana", "")
        assert "Your VMs: 1 running" in text
        assert "trainer" in text
        assert "other" not in text
        stop = next(action for action in its if action.startswith("stop"))
        team.press(team.world.slack.messages("#gpu-costs", ephemeral=True)[-1], stop)
        team.later(5 * MINUTE)
        assert team.status() is Status.TERMINATED
        assert (
            "2" in said(team, "dana", "all")[0].splitlines()[0]
            or "1 running, 1 not running" in said(team, "dana", "all")[0]
        )
        assert said(team, "emi", "all")[0] == "/gpu all is for operators and admins. /gpu lists your own."
        assert said(team, "emi", "")[0] == "Your VMs: none. Costguard knows you as emi@example.com."
        assert "/gpu all lists every VM" in said(team, "emi", "help")[0]
        assert said(team, "emi", "brew coffee")[0].startswith("There is no command /gpu brew coffee.")


def stored(team: Story) -> int:
    with team.guard.database.read() as connection:
        return len(request_rows.open_requests(connection))


def post(team: Story, body: bytes, headers: Mapping[str, str]) -> int:
    return httpx2.post(f"{team.url}/slack/interactions", content=body, headers=dict(headers)).status_code


def pressed(team: Story, **changes: Any) -> bytes:
    """Returns what Slack would send for a press of "Stop now", with something of it changed."""
    reminder = team.only()
    team.world.slack.interactions.request_url = ""  # kept to ourselves
    payload = dict(team.click(reminder, "stop").payload)
    return urlencode({"payload": orjson.dumps({**payload, **changes}).decode()}).encode()


def test_nobody_else_speaks_for_slack(sqlite_url: str) -> None:
    """Forged, old, repeated, cut short, oversized or made up: 401, counted by reason, and nothing is stored."""
    with story(sqlite_url) as team:
        team.vm()
        team.later(8 * HOUR)
        body, now = pressed(team), int(SystemClock().now().timestamp())
        good = dict(signed_headers(SIGNING_SECRET, body, now))
        good["content-type"] = "application/x-www-form-urlencoded"

        def signed(raw: bytes, secret: str = SIGNING_SECRET, ago: int = 0) -> dict[str, str]:
            return {**good, **signed_headers(secret, raw, now - ago)}

        assert post(team, body, {}) == 401
        assert post(team, body, signed(body, "another secret")) == 401
        assert post(team, body, signed(body, ago=360)) == 401
        assert post(team, body[:-1], good) == 401
        for odd in (b"", b"payload=", b"payload=%7B%7D", pressed(team, actions=[]), pressed(team, user=None), b"\xff"):
            assert post(team, odd, signed(odd)) == 401
        huge = b"payload=" + b"x" * 300_000
        assert post(team, huge, signed(huge)) == 401
        assert stored(team) == 0
        assert post(team, body, good) == 200
        assert post(team, body, good) == 401
        assert stored(team) == 1
        refused = team.get("/readyz")["slack_refused"]
        assert refused["replayed"] == 1
        assert refused["oversized"] == 1
        assert sum(refused.values()) == 12
