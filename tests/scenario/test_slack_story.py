"""A forgotten VM leads to an answer in Slack: what people press, and its effect in the simulated cloud."""

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


def stop_listed(team: Story, by: str) -> None:
    """Stops by the button of the list that /gpu shows."""
    team.world.slack.interactions.command(by, "#gpu-costs")
    user = team.world.slack.user(by).id
    private = team.world.slack.messages("#gpu-costs", ephemeral=True)
    listed = [message for message in private if message.ephemeral_to == user][-1]
    (stop,) = (action for action in buttons(listed) if action.startswith("stop"))
    team.press(listed, stop, by=by)


def in_channel(team: Story) -> Message:
    """The third reminder about Ana's VM, which everybody sees."""
    team.vm()
    team.later(8 * HOUR)
    team.later(2 * HOUR, every=HOUR)
    return team.only("#gpu-costs")


def test_the_owner_is_asked_once_and_keeps_it(sqlite_url: str) -> None:
    """The message is edited in place; nothing is sent within the keep, and after it the reminders begin again."""
    with story(sqlite_url) as team:
        team.vm()
        team.later(7 * HOUR)
        assert team.sent() == []
        team.later(HOUR)
        reminder = team.only()
        assert "n1-standard-4, 1 x T4" in shown(reminder)
        assert buttons(reminder) == {
            "keep:4": "Keep 4 h (+$2.16)",
            "keep": "Until tomorrow (+$8.63)",
            "stop": "Stop now",
            "disown": "Not mine",
        }
        assert team.press(reminder, "keep:4").ok
        assert "Kept by ana@example.com until Mon 21:01 CET." in shown(reminder)
        assert (team.only(), buttons(reminder)) == (reminder, {})
        team.later(4 * HOUR - MINUTE, every=HOUR)
        assert team.only() == reminder
        team.later(MINUTE)
        assert (team.last().thread_ts, len(team.sent())) == (reminder.ts, 2)
        assert "reminder 1" in shown(team.last())
        assert team.sent("#gpu-costs") == []


def test_tomorrow_is_the_pressers(sqlite_url: str) -> None:
    """Tomorrow at nine where the person is who pressed: in Los Angeles, for a VM of someone in Madrid."""
    with story(sqlite_url, access=HELPERS, presets=QUICK) as team:
        team.press(in_channel(team), "keep", by="dana")
        (event,) = team.events("LifetimeKept")
        assert event == "dana@example.com keeps trainer until Tue 3 Nov 17:00 UTC."


def test_a_button_that_is_late(sqlite_url: str) -> None:
    """Pressed after someone else's keep and before the message shows it, a stop is refused in private."""
    with story(sqlite_url, access=HELPERS, presets=QUICK) as team:
        reminder = in_channel(team)
        team.click(reminder, "keep:4", by="dana")
        team.press(reminder, "stop", by="chiara")
        team.look()
        assert team.status() is Status.RUNNING
        (why,) = team.private_messages("chiara")
        assert why.startswith("dana@example.com kept trainer until Mon 23:01 CET after your request.")
        assert "Type /gpu for buttons to stop it" in why


def test_the_owner_stops_it(sqlite_url: str) -> None:
    """It is stopped in the cloud; the message says that it was asked for, then how it ended and what it cost."""
    with story(sqlite_url) as team:
        team.vm()
        team.later(8 * HOUR)
        reminder = team.only()
        team.press(reminder, "stop")
        assert "ana@example.com requested a stop." in shown(reminder)
        team.later(5 * MINUTE)
        team.later(MINUTE)
        assert team.status() is Status.TERMINATED
        assert "It was stopped after 8 h 1 min, as requested by ana@example.com; that run cost" in shown(reminder)
        assert "that run cost $4.3" in shown(reminder)
        assert (buttons(reminder), team.only()) == ({}, reminder)
        assert len([one for one in team.world.operations.of(PROJECT) if one.kind == "stop"]) == 1


@pytest.mark.parametrize("who", ["ben", "chiara"])
def test_who_may_stop_it(sqlite_url: str, who: str) -> None:
    """An operator of its team, or an admin; a stranger and another team's operator are refused in private."""
    with story(sqlite_url, access=ACCESS, teams=TEAMS, presets=QUICK) as team:
        reminder = in_channel(team)
        for other in ("emi", "dana"):
            assert team.press(reminder, "stop", by=other).ok
            refused = "Only ana@example.com, an operator of team vision or an admin can stop trainer."
            assert team.private_messages(other) == [refused]
            assert "stop" in buttons(reminder)
        team.later(5 * MINUTE)
        assert team.status() is Status.RUNNING
        team.press(reminder, "stop", by=who)
        team.later(5 * MINUTE)
        assert (team.status(), buttons(reminder), team.private_messages(who)) == (Status.TERMINATED, {}, [])


def test_one_keep_more_than_the_preset_allows(sqlite_url: str) -> None:
    """It needs an admin; the owner reads whom to ask, and the message goes on asking."""
    with story(sqlite_url, access=ACCESS, presets=QUICK) as team:
        team.vm()
        team.later(8 * HOUR)
        team.press(team.only(), "keep:4")
        team.later(4 * HOUR)
        again = team.last()
        team.press(again, "keep:4")
        assert team.private_messages("ana") == ["It was already kept once; ask an admin: chiara@example.com."]
        assert "keep:4" in buttons(again)
        team.later(2 * HOUR, every=HOUR)
        team.press(team.only("#gpu-costs"), "keep:4", by="chiara")
        assert len(team.events("LifetimeKept")) == 2
        assert "Kept by chiara@example.com" in shown(team.only("#gpu-costs"))


def test_not_mine_and_mine(sqlite_url: str) -> None:
    """A disowned VM is asked about in the channel until someone claims it, who then has its cost and its reminders."""
    with story(sqlite_url, access=ACCESS) as team:
        vm = team.vm()
        team.later(8 * HOUR)
        reminder = team.only()
        team.press(reminder, "disown")
        assert "It is unowned until someone claims it" in shown(reminder)
        team.later(MINUTE)
        unclaimed = team.only("#gpu-costs")
        assert buttons(unclaimed)["claim"] == "Claim"
        assert "disown" not in buttons(unclaimed)
        team.press(unclaimed, "claim", by="ben")
        assert "It is ben@example.com's now" in shown(unclaimed)
        notice = team.last("#gpu-costs")
        assert "ben@example.com claimed trainer" in shown(notice)
        team.later(4 * HOUR)
        assert "counts this VM as yours" in shown(team.only("ben"))
        assert (team.only("ana"), team.sent("#gpu-costs")) == (reminder, [unclaimed, notice])
        response = team.get(f"/api/v1/instances/{PROJECT}/{vm.id}")
        assert response["instance"]["owner"] == "ben@example.com"


def test_a_claim_is_announced_before_it_stops_anything(sqlite_url: str) -> None:
    """The team alone claims a service account's VM, and stops it once the channel has read of it."""
    teams = {"vision": {"members": ["ben@example.com"], "projects": [PROJECT], "channel": "#ml-team"}}
    with story(sqlite_url, access=ACCESS, teams=teams) as team:
        team.vm(owner="", user="ci@acme-training.iam.gserviceaccount.com")
        team.later(8 * HOUR)
        unclaimed = team.only("#ml-team")
        team.press(unclaimed, "claim", by="dana")
        assert team.private_messages("dana") == ["Only an operator of team vision or an admin can take over trainer."]
        team.world.slack.faults.add("error", method="chat.postMessage", code="is_archived")
        team.press(unclaimed, "claim", by="ben")
        team.later(MINUTE)
        stop_listed(team, "ben")
        assert team.status() is Status.RUNNING
        assert "trainer was claimed less than an hour ago" in team.events("RequestRefused")[-1]
        team.world.slack.faults.clear()
        team.later(HOUR)
        stop_listed(team, "ben")
        team.later(MINUTE)
        assert team.status() in (Status.STOPPING, Status.TERMINATED)


def test_owners_whom_slack_does_not_know(sqlite_url: str) -> None:
    """The channel is asked instead of someone who never was there, or who left; the owner's name stands there."""
    with story(sqlite_url) as team:
        team.world.slack.add_user("left", deleted=True)
        team.vm("one", owner="nobody-here")
        team.vm("two", owner="left")
        team.later(8 * HOUR)
        one, two = team.sent("#gpu-costs")
        assert "Its owner nobody-here@example.com has no account in this Slack workspace." in shown(one)
        assert "Its owner left@example.com has no account in this Slack workspace." in shown(two)


def test_a_vm_that_a_program_made(sqlite_url: str) -> None:
    """A service account owns nothing: unclaimed, with "Claim"."""
    with story(sqlite_url) as team:
        team.vm(owner="", user="ci@acme-training.iam.gserviceaccount.com")
        team.later(8 * HOUR)
        reminder = team.only("#gpu-costs")
        assert "ci@acme-training.iam.gserviceaccount.com" in shown(reminder)
        assert buttons(reminder)["claim"] == "Claim"


def test_it_ends_while_a_message_stands(sqlite_url: str) -> None:
    """Preempted, stopped or deleted by others: the message says how and for how much, and has no button any more."""
    with story(sqlite_url, presets=QUICK) as team:
        for name in ("lost", "halted", "removed"):
            team.vm(name, spot=True)
        team.later(8 * HOUR)
        team.world.preempt(PROJECT, "lost")
        team.world.stop(PROJECT, "halted", "ben@example.com")
        team.world.delete(PROJECT, "removed", "ben@example.com")
        team.later(5 * MINUTE)
        team.later(2 * MINUTE)
        ends = {
            "lost": ("preempted by Google after", "; that run"),
            "halted": ("stopped after", " by ben@example.com; that run"),
            "removed": ("deleted after", " by ben@example.com; that run"),
        }
        for message in team.sent():
            name = message.text.split(":")[0]
            verb, by = ends.pop(name)
            assert f"It was {verb}" in shown(message)
            assert by in shown(message)
            assert "that run cost $" in shown(message)
            assert buttons(message) == {}
        team.later(DAY, every=timedelta(hours=12))
        assert len(team.sent()) == 3
