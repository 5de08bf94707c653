"""When people are asked, whom, and what happens when nobody answers: the rules, seen from Slack and the cloud."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.scenario.slack_story import DAY, HOUR, MINUTE, PROJECT, buttons, shown, story

from costguard_sandbox.gce.vm import Load, Status

HOURLY = {"limit": "8h", "remind_every": "1h"}
STOPPING = {**HOURLY, "when_unanswered": "stop", "stop_after": 2, "grace": "30m"}


def test_the_ladder(sqlite_url: str) -> None:
    """Owner, owner, owner and channel, contact as well, then once a day; each has one thread about it."""
    with story(sqlite_url, presets={"t4": HOURLY}, reminders={"contact": "chiara@example.com"}) as told:
        told.vm()
        told.later(8 * HOUR)
        heard = []
        for _ in range(6):
            heard.append([len(told.sent(who)) for who in ("ana", "#gpu-costs", "chiara")])
            told.later(HOUR)
        assert heard == [[1, 0, 0], [2, 0, 0], [3, 1, 0], [4, 2, 1], [4, 2, 1], [4, 2, 1]]
        told.later(DAY)
        assert [len(told.sent(who)) for who in ("ana", "#gpu-costs", "chiara")] == [5, 3, 1]
        for who in ("ana", "#gpu-costs"):
            root, *replies = told.sent(who)
            assert (root.thread_ts, {reply.thread_ts for reply in replies}) == ("", {root.ts})
        assert "You are the contact for its budget." in shown(told.only("chiara"))
        assert "was reminded and has not answered" in shown(told.only("chiara"))


def test_nights_and_weekends_are_the_owners(sqlite_url: str) -> None:
    """Due on a Friday evening in Tokyo, its owner is asked on Monday at eight there."""
    friday = datetime(2026, 11, 6, 4, tzinfo=UTC)
    quiet = {"quiet_hours": "20:00-08:00", "quiet_days": ["sat", "sun"]}
    with story(sqlite_url, friday, reminders=quiet) as told:
        told.vm(owner="emi")
        told.later(2 * DAY + 18 * HOUR + 45 * MINUTE, every=12 * HOUR)
        assert told.sent("emi") == []
        assert told.preview().left_alone[0].reason.endswith("quiet hours of emi@example.com until Mon 08:00")
        told.later(15 * MINUTE)
        assert len(told.sent("emi")) == 1


def test_what_costs_enough_wakes_people(sqlite_url: str) -> None:
    """Eight A100s cost more an hour than the settings let sleep: their owner is asked at night."""
    quiet = {"quiet_hours": "20:00-08:00", "quiet_unless_above": 20}
    with story(sqlite_url, reminders=quiet, presets={"multi-gpu": {"limit": "16h"}}) as told:
        told.vm("cluster", "a2-highgpu-8g")
        told.vm("small")
        told.later(16 * HOUR)
        assert ["cluster" in shown(message) for message in told.sent()] == [True]


def test_nobody_answers_so_it_is_stopped(sqlite_url: str) -> None:
    """Told when, warned twice, stopped once after the grace; the event has the rule, the reminder and the evidence."""
    with story(sqlite_url, presets={"t4": STOPPING}) as told:
        told.vm()
        told.later(8 * HOUR)
        assert "It will be stopped" not in shown(told.only())
        told.later(HOUR)
        assert "It will be stopped" in shown(told.sent()[0])
        assert "It will be stopped" in shown(told.last())
        told.later(28 * MINUTE)
        assert told.status() is Status.RUNNING
        told.later(3 * MINUTE)
        told.later(5 * MINUTE)
        assert told.status() is Status.TERMINATED
        assert "It was stopped after 9 h 31 min, because no one answered; that run cost" in shown(told.last())
        (ordered,) = told.events("InstanceStopOrdered")
        assert "preset t4: stop after 2 unanswered reminders and 30 min" in ordered
        assert "nobody answered 2 reminders since Mon" in ordered
        (stop,) = told.get("/api/v1/enforcement")["stops"]
        assert stop["reminders"] == 2
        assert stop["saved"]["amount"]["complete"]


def test_an_answer_in_the_grace_saves_it(sqlite_url: str) -> None:
    """A keep a minute before the stop: it runs on, and the count of reminders begins anew."""
    with story(sqlite_url, presets={"t4": STOPPING}) as told:
        told.vm()
        told.later(8 * HOUR)
        told.later(HOUR)
        told.later(28 * MINUTE)
        told.press(told.last(), "keep:4")
        told.later(5 * HOUR, every=HOUR)
        assert told.status() is Status.RUNNING
        assert [shown(message).count("Kept by ana") for message in told.sent()][:2] == [1, 1]
        told.later(2 * HOUR, every=HOUR)
        told.later(5 * MINUTE)
        assert told.status() is Status.TERMINATED


def test_protected_vms(sqlite_url: str) -> None:
    """No rule stops them, and it is said why; people are asked all the same, and a person may stop them."""
    with story(sqlite_url, presets={"t4": STOPPING}, enforcement={"protect_names": ["train*"]}) as told:
        told.vm()
        told.vm("eval", labels={"costguard-protect": "nightly-eval"})
        told.later(8 * HOUR)
        told.later(3 * HOUR, every=HOUR)
        assert {told.status(), told.status("eval")} == {Status.RUNNING}
        reasons = " ".join(decision.reason for decision in told.preview().left_alone)
        assert "protected by name train*" in reasons
        assert "protected by label costguard-protect: nightly-eval" in reasons
        assert not any("It will be stopped" in shown(message) for message in told.sent())
        told.press(told.sent()[0], "stop")
        told.later(5 * MINUTE)
        assert {told.status(), told.status("eval")} == {Status.RUNNING, Status.TERMINATED}


def test_in_shadow_rules_only_report(sqlite_url: str) -> None:
    """Nothing is stopped, the message does not threaten, and it stands in a report what would have been saved."""
    with story(sqlite_url, presets={"t4": STOPPING}, enforcement={"shadow": True}) as told:
        told.vm()
        told.later(8 * HOUR)
        told.later(5 * HOUR, every=30 * MINUTE)
        assert told.status() is Status.RUNNING
        assert "It will be stopped" not in "".join(map(shown, told.sent()))
        (would,) = told.get("/api/v1/enforcement")["shadow_stops"]
        assert float(would["would_have_saved"]["amount"]["amount"]) > 0
        assert told.events("InstanceWouldBeStopped")


def test_a_stopped_vm_whose_disks_bill(sqlite_url: str) -> None:
    """Its owner is asked after three days at rest, and again a week after the answer."""
    with story(sqlite_url) as told:
        told.vm(disk_gib=1000)
        told.world.stop(PROJECT, "trainer")
        told.later(5 * MINUTE)
        told.later(3 * DAY, every=DAY)
        told.later(5 * MINUTE)
        asked = told.only()
        assert "is not running, but its storage is billed" in shown(asked)
        # A week of $100 a month, in a November of 721 hours.
        assert buttons(asked) == {"keep:168": "Ask again in a week (+$23.30)", "disown": "Not mine"}
        told.press(asked, "keep:168")
        assert buttons(asked) == {}
        told.later(7 * DAY - HOUR, every=2 * DAY)
        assert len(told.sent()) == 1
        told.later(HOUR)
        assert len(told.sent()) == 2
        told.world.start(PROJECT, "trainer")
        told.later(5 * MINUTE)
        assert [buttons(message) for message in told.sent()] == [{}, {}]


def test_an_idle_vm_is_asked_about_before_its_limit(sqlite_url: str) -> None:
    """After an hour in which its GPU did nothing, with the evidence; a busy one is left alone."""
    with story(sqlite_url, idle={"enabled": True}) as told:
        told.vm("lazy")
        told.vm("eager")
        told.world.set_load(PROJECT, "lazy", Load.IDLE)
        told.world.set_load(PROJECT, "eager", Load.BUSY)
        told.later(2 * HOUR, every=10 * MINUTE)
        asked = told.only()
        assert "lazy is still running" in shown(asked)
        assert "*Idle* since" in shown(asked)
        assert "GPU under 5 %" in shown(asked)
        told.world.set_load(PROJECT, "lazy", Load.BUSY)
        told.later(HOUR, every=10 * MINUTE)
        told.later(4 * HOUR, every=HOUR)
        assert "It is no longer due." in shown(told.only())


def test_only_one_that_is_there_is_asked_about(sqlite_url: str) -> None:
    """Deleted and made anew under its name, the VM is another one with a limit of its own."""
    with story(sqlite_url) as told:
        told.vm()
        told.later(8 * HOUR)
        told.world.delete(PROJECT, "trainer")
        told.later(5 * MINUTE)
        told.vm()
        told.later(4 * HOUR)
        assert "It was deleted" in shown(told.only())
        told.later(4 * HOUR)
        assert (told.last().thread_ts, len(told.sent())) == ("", 2)
