"""From a forgotten VM to an answer in Slack: what people press, and what comes of it in the simulated cloud."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.scenario.slack_story import DAY, HOUR, MINUTE, PROJECT, Story, buttons, shown, story

from costguard_sandbox.gce.vm import Status
from costguard_sandbox.slack.model import Message

ACCESS = {"operators": ["ben@example.com", "dana@example.com"], "admins": ["chiara@example.com"]}
HELPERS = {"admins": ["chiara@example.com", "dana@example.com"]}
TEAMS = {"vision": {"members": ["ana@example.com", "ben@example.com"]}}
QUICK = {"t4": {"limit": "8h", "remind_every": "1h", "keeps": 1}}


def stop_listed(told: Story, by: str) -> None:
    """By the button of the list that /gpu shows."""
    told.world.slack.interactions.command(by, "#gpu-costs")
    user = told.world.slack.user(by).id
    shown_to = [each for each in told.world.slack.messages("#gpu-costs", ephemeral=True) if each.ephemeral_to == user]
    listed = shown_to[-1]
    (stop,) = (action for action in buttons(listed) if action.startswith("stop"))
    told.press(listed, stop, by=by)


def in_channel(told: Story) -> Message:
    """The third reminder about Ana's VM, which everybody sees."""
    told.vm()
    told.later(8 * HOUR)
    told.later(2 * HOUR, every=HOUR)
    return told.only("#gpu-costs")


def test_the_owner_is_asked_once_and_keeps_it(sqlite_url: str) -> None:
    """The message is edited in place; nothing is sent within the keep, and after it the asking begins anew."""
    with story(sqlite_url) as told:
        told.vm()
        told.later(7 * HOUR)
        assert told.sent() == []
        told.later(HOUR)
        asked = told.only()
        assert "n1-standard-4, 1 x T4" in shown(asked)
        assert buttons(asked) == {
            "keep:4": "Keep 4 h (+$2.16)",
            "keep": "Until tomorrow (+$8.63)",
            "stop": "Stop now",
            "disown": "Not mine",
        }
        assert told.press(asked, "keep:4").ok
        assert "Kept by ana@example.com until Mon 21:01 CET." in shown(asked)
        assert (told.only(), buttons(asked)) == (asked, {})
        told.later(4 * HOUR - MINUTE, every=HOUR)
        assert told.only() == asked
        told.later(MINUTE)
        assert (told.last().thread_ts, len(told.sent())) == (asked.ts, 2)
        assert "reminder 1" in shown(told.last())
        assert told.sent("#gpu-costs") == []


def test_tomorrow_is_the_pressers(sqlite_url: str) -> None:
    """Tomorrow at nine where the person is who pressed: in Los Angeles, for a VM of somebody in Madrid."""
    with story(sqlite_url, access=HELPERS, presets=QUICK) as told:
        told.press(in_channel(told), "keep", by="dana")
        (event,) = told.events("LifetimeKept")
        assert event == "dana@example.com keeps trainer until Tue 3 Nov 17:00 UTC."


def test_a_button_that_is_late(sqlite_url: str) -> None:
    """Pressed after somebody else's keep and before the message shows it, a stop is refused in private."""
    with story(sqlite_url, access=HELPERS, presets=QUICK) as told:
        asked = in_channel(told)
        told.world.slack.interactions.click("dana", asked.channel, asked.ts, "keep:4")
        told.press(asked, "stop", by="chiara")
        told.look()
        assert told.status() is Status.RUNNING
        (why,) = told.told("chiara")
        assert why.startswith("dana@example.com kept trainer until Mon 23:01 CET after your request.")
        assert "Type /gpu for buttons to stop it" in why


def test_the_owner_stops_it(sqlite_url: str) -> None:
    """It is stopped in the cloud; the message says that it was asked for, then how it ended and what it cost."""
    with story(sqlite_url) as told:
        told.vm()
        told.later(8 * HOUR)
        asked = told.only()
        told.press(asked, "stop")
        assert "ana@example.com requested a stop." in shown(asked)
        told.later(5 * MINUTE)
        told.later(MINUTE)
        assert told.status() is Status.TERMINATED
        assert "It was stopped after 8 h 1 min, as requested by ana@example.com; that run cost" in shown(asked)
        assert "that run cost $4.3" in shown(asked)
        assert (buttons(asked), told.only()) == ({}, asked)
        assert len([one for one in told.world.operations.of(PROJECT) if one.kind == "stop"]) == 1


@pytest.mark.parametrize("who", ["ben", "chiara"])
def test_who_may_stop_it(sqlite_url: str, who: str) -> None:
    """An operator of its team, or an admin; a stranger and another team's operator are refused in private."""
    with story(sqlite_url, access=ACCESS, teams=TEAMS, presets=QUICK) as told:
        asked = in_channel(told)
        for other in ("emi", "dana"):
            assert told.press(asked, "stop", by=other).ok
            refused = "Only ana@example.com, an operator of team vision or an admin can stop trainer."
            assert told.told(other) == [refused]
            assert "stop" in buttons(asked)
        told.later(5 * MINUTE)
        assert told.status() is Status.RUNNING
        told.press(asked, "stop", by=who)
        told.later(5 * MINUTE)
        assert (told.status(), buttons(asked), told.told(who)) == (Status.TERMINATED, {}, [])


def test_one_keep_more_than_the_preset_allows(sqlite_url: str) -> None:
    """It needs an admin; the owner is told whom to ask, and the message goes on asking."""
    with story(sqlite_url, access=ACCESS, presets=QUICK) as told:
        told.vm()
        told.later(8 * HOUR)
        told.press(told.only(), "keep:4")
        told.later(4 * HOUR)
        again = told.last()
        told.press(again, "keep:4")
        assert told.told("ana") == ["It was already kept once; ask an admin: chiara@example.com."]
        assert "keep:4" in buttons(again)
        told.later(2 * HOUR, every=HOUR)
        told.press(told.only("#gpu-costs"), "keep:4", by="chiara")
        assert len(told.events("LifetimeKept")) == 2
        assert "Kept by chiara@example.com" in shown(told.only("#gpu-costs"))


def test_not_mine_and_mine(sqlite_url: str) -> None:
    """A disowned VM is asked about in the channel until somebody claims it, who then has its cost and its reminders."""
    with story(sqlite_url, access=ACCESS) as told:
        vm = told.vm()
        told.later(8 * HOUR)
        asked = told.only()
        told.press(asked, "disown")
        assert "It is unowned until someone claims it" in shown(asked)
        told.later(MINUTE)
        unclaimed = told.only("#gpu-costs")
        assert buttons(unclaimed)["claim"] == "Claim"
        assert "disown" not in buttons(unclaimed)
        told.press(unclaimed, "claim", by="ben")
        assert "It is ben@example.com's now" in shown(unclaimed)
        notice = told.last("#gpu-costs")
        assert "ben@example.com claimed trainer" in shown(notice)
        told.later(4 * HOUR)
        assert "counts this VM as yours" in shown(told.only("ben"))
        assert (told.only("ana"), told.sent("#gpu-costs")) == (asked, [unclaimed, notice])
        of = told.get(f"/api/v1/instances/{PROJECT}/{vm.id}")
        assert of["instance"]["owner"] == "ben@example.com"


def test_a_claim_is_announced_before_it_stops_anything(sqlite_url: str) -> None:
    """What a service account made is claimed by its team alone, and stopped by them once the channel has read of it."""
    teams = {"vision": {"members": ["ben@example.com"], "projects": [PROJECT], "channel": "#ml-team"}}
    with story(sqlite_url, access=ACCESS, teams=teams) as told:
        told.vm(owner="", user="ci@acme-training.iam.gserviceaccount.com")
        told.later(8 * HOUR)
        unclaimed = told.only("#ml-team")
        told.press(unclaimed, "claim", by="dana")
        assert told.told("dana") == ["Only an operator of team vision or an admin can take over trainer."]
        told.world.slack.faults.add("error", method="chat.postMessage", code="is_archived")
        told.press(unclaimed, "claim", by="ben")
        told.later(MINUTE)
        stop_listed(told, "ben")
        assert told.status() is Status.RUNNING
        assert "trainer was claimed less than an hour ago" in told.events("RequestRefused")[-1]
        told.world.slack.faults.clear()
        told.later(HOUR)
        stop_listed(told, "ben")
        told.later(MINUTE)
        assert told.status() in (Status.STOPPING, Status.TERMINATED)


def test_owners_whom_slack_does_not_know(sqlite_url: str) -> None:
    """The channel is asked instead of somebody who never was there, or who left; the owner's name stands there."""
    with story(sqlite_url) as told:
        told.world.slack.add_user("left", deleted=True)
        told.vm("one", owner="nobody-here")
        told.vm("two", owner="left")
        told.later(8 * HOUR)
        one, two = told.sent("#gpu-costs")
        assert "Its owner nobody-here@example.com has no account in this Slack workspace." in shown(one)
        assert "Its owner left@example.com has no account in this Slack workspace." in shown(two)


def test_a_vm_that_a_program_made(sqlite_url: str) -> None:
    """A service account owns nothing: unclaimed, with "Claim"."""
    with story(sqlite_url) as told:
        told.vm(owner="", user="ci@acme-training.iam.gserviceaccount.com")
        told.later(8 * HOUR)
        asked = told.only("#gpu-costs")
        assert "ci@acme-training.iam.gserviceaccount.com" in shown(asked)
        assert buttons(asked)["claim"] == "Claim"


def test_it_ends_while_a_message_stands(sqlite_url: str) -> None:
    """Preempted, stopped or deleted by others: the message says how and for how much, and has no button any more."""
    with story(sqlite_url, presets=QUICK) as told:
        for name in ("lost", "halted", "removed"):
            told.vm(name, spot=True)
        told.later(8 * HOUR)
        told.world.preempt(PROJECT, "lost")
        told.world.stop(PROJECT, "halted", "ben@example.com")
        told.world.delete(PROJECT, "removed", "ben@example.com")
        told.later(5 * MINUTE)
        told.later(2 * MINUTE)
        ends = {
            "lost": ("preempted by Google after", "; that run"),
            "halted": ("stopped after", " by ben@example.com; that run"),
            "removed": ("deleted after", " by ben@example.com; that run"),
        }
        for message in told.sent():
            name = message.text.split(":")[0]
            verb, by = ends.pop(name)
            assert f"It was {verb}" in shown(message)
            assert by in shown(message)
            assert "that run cost $" in shown(message)
            assert buttons(message) == {}
        told.later(DAY, every=timedelta(hours=12))
        assert len(told.sent()) == 3
