"""When people are asked, whom, and what happens when nobody answers: the rules, seen from Slack and the cloud."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.scenario.slack_story import DAY, HOUR, MINUTE, PROJECT, buttons, shown, story

from costguard_sandbox.gce.vm import Load, Status

HOURLY = {"limit": "8h", "remind_every": "1h"}
STOPPING = {**HOURLY, "when_unanswered": "stop", "stop_after": 2, "grace": "30m"}


def test_the_ladder(sqlite_url: str) -> None:
    """Owner, owner, owner and channel, contact as well, then once a day; each has one thread about it."""
    with story(sqlite_url, presets={"t4": HOURLY}, reminders={"contact": "chiara@example.com"}) as team:
        team.vm()
        team.later(8 * HOUR)
        counts = []
        for _ in range(6):
            counts.append([len(team.sent(who)) for who in ("ana", "#gpu-costs", "chiara")])
            team.later(HOUR)
        assert counts == [[1, 0, 0], [2, 0, 0], [3, 1, 0], [4, 2, 1], [4, 2, 1], [4, 2, 1]]
        team.later(DAY)
        assert [len(team.sent(who)) for who in ("ana", "#gpu-costs", "chiara")] == [5, 3, 1]
        for who in ("ana", "#gpu-costs"):
            root, *replies = team.sent(who)
            assert (root.thread_ts, {reply.thread_ts for reply in replies}) == ("", {root.ts})
        assert "You are the contact for its budget." in shown(team.only("chiara"))
        assert "was reminded and has not answered" in shown(team.only("chiara"))


def test_nights_and_weekends_are_the_owners(sqlite_url: str) -> None:
    """Due on a Friday evening in Tokyo, its owner is asked on Monday at eight there."""
    friday = datetime(2026, 11, 6, 4, tzinfo=UTC)
    quiet = {"quiet_hours": "20:00-08:00", "quiet_days": ["sat", "sun"]}
    with story(sqlite_url, friday, reminders=quiet) as team:
        team.vm(owner="emi")
        team.later(2 * DAY + 18 * HOUR + 45 * MINUTE, every=12 * HOUR)
        assert team.sent("emi") == []
        assert team.preview().left_alone[0].reason.endswith("quiet hours of emi@example.com until Mon 08:00")
        team.later(15 * MINUTE)
        assert len(team.sent("emi")) == 1


def test_what_costs_enough_wakes_people(sqlite_url: str) -> None:
    """Eight A100s cost more an hour than the settings let sleep: their owner is asked at night."""
    quiet = {"quiet_hours": "20:00-08:00", "quiet_unless_above": 20}
    with story(sqlite_url, reminders=quiet, presets={"multi-gpu": {"limit": "16h"}}) as team:
        team.vm("cluster", "a2-highgpu-8g")
        team.vm("small")
        team.later(16 * HOUR)
        assert ["cluster" in shown(message) for message in team.sent()] == [True]


def test_nobody_answers_so_it_is_stopped(sqlite_url: str) -> None:
    """Told when, warned twice, stopped once after the grace; the event has the rule, the reminder and the evidence."""
    with story(sqlite_url, presets={"t4": STOPPING}) as team:
        team.vm()
        team.later(8 * HOUR)
        assert "It will be stopped" not in shown(team.only())
        team.later(HOUR)
        assert "It will be stopped" in shown(team.sent()[0])
        assert "It will be stopped" in shown(team.last())
        team.later(28 * MINUTE)
        assert team.status() is Status.RUNNING
        team.later(3 * MINUTE)
        team.later(5 * MINUTE)
        assert team.status() is Status.TERMINATED
        assert "It was stopped after 9 h 31 min, because no one answered; that run cost" in shown(team.last())
        (ordered,) = team.events("InstanceStopOrdered")
        assert "preset t4: stop after 2 unanswered reminders and 30 min" in ordered
        assert "no answer to 2 reminders since Mon" in ordered
        (stop,) = team.get("/api/v1/enforcement")["stops"]
        assert stop["reminders"] == 2
        assert stop["saved"]["amount"]["complete"]


def test_an_answer_in_the_grace_saves_it(sqlite_url: str) -> None:
    """A keep a minute before the stop: it runs on, and the count of reminders begins again."""
    with story(sqlite_url, presets={"t4": STOPPING}) as team:
        team.vm()
        team.later(8 * HOUR)
        team.later(HOUR)
        team.later(28 * MINUTE)
        team.press(team.last(), "keep:4")
        team.later(5 * HOUR, every=HOUR)
        assert team.status() is Status.RUNNING
        assert [shown(message).count("Kept by ana") for message in team.sent()][:2] == [1, 1]
        team.later(2 * HOUR, every=HOUR)
        team.later(5 * MINUTE)
        assert team.status() is Status.TERMINATED


def test_protected_vms(sqlite_url: str) -> None:
    """No rule stops them, and it is said why; people are asked all the same, and a person may stop them."""
    with story(sqlite_url, presets={"t4": STOPPING}, enforcement={"protect_names": ["train*"]}) as team:
        team.vm()
        team.vm("eval", labels={"costguard-protect": "nightly-eval"})
        team.later(8 * HOUR)
        team.later(3 * HOUR, every=HOUR)
        assert {team.status(), team.status("eval")} == {Status.RUNNING}
        reasons = " ".join(decision.reason for decision in team.preview().left_alone)
        assert "protected by name train*" in reasons
        assert "protected by label costguard-protect: nightly-eval" in reasons
        assert not any("It will be stopped" in shown(message) for message in team.sent())
        team.press(team.sent()[0], "stop")
        team.later(5 * MINUTE)
        assert {team.status(), team.status("eval")} == {Status.RUNNING, Status.TERMINATED}


def test_in_shadow_rules_only_report(sqlite_url: str) -> None:
    """Nothing is stopped, the message does not threaten, and it stands in a report what would have been saved."""
    with story(sqlite_url, presets={"t4": STOPPING}, enforcement={"shadow": True}) as team:
        team.vm()
        team.later(8 * HOUR)
        team.later(5 * HOUR, every=30 * MINUTE)
        assert team.status() is Status.RUNNING
        assert "It will be stopped" not in "".join(map(shown, team.sent()))
        (would,) = team.get("/api/v1/enforcement")["shadow_stops"]
        assert float(would["would_have_saved"]["amount"]["amount"]) > 0
        assert team.events("InstanceWouldBeStopped")


def test_the_first_day_in_shadow_mode_ends_with_one_report(sqlite_url: str) -> None:
    """A day after the first look the contact is sent it, once, with the VM, its owner and its cost since the stop."""
    contact = {"contact": "chiara@example.com"}
    with story(sqlite_url, presets={"t4": STOPPING}, enforcement={"shadow": True}, reminders=contact) as team:
        team.vm()
        team.later(8 * HOUR)
        team.later(15 * HOUR, every=30 * MINUTE)

        def reports() -> list[str]:
            return [text for text in map(shown, team.sent("chiara")) if "first day in shadow mode" in text]

        assert reports() == []
        team.later(2 * HOUR, every=30 * MINUTE)
        (report,) = reports()
        assert "1 VM would have been stopped, and cost $" in report
        assert "trainer" in report
        assert "ana@example.com" in report
        assert "a month at that pace" in report
        team.later(3 * DAY, every=HOUR)
        assert len(reports()) == 1
        (vm,) = team.get("/api/v1/report")["vms"]
        assert (vm["step"], vm["owner"]) == ("would_stop", "ana@example.com")
        (recorded,) = team.get("/api/v1/enforcement")["shadow_stops"]
        assert vm["cost_since_stop"] == recorded["cost"]


def test_a_stopped_vm_whose_disks_bill(sqlite_url: str) -> None:
    """The owner is asked three days after the stop, and again a week after the answer."""
    with story(sqlite_url) as team:
        team.vm(disk_gib=1000)
        team.world.stop(PROJECT, "trainer")
        team.later(5 * MINUTE)
        team.later(3 * DAY, every=DAY)
        team.later(5 * MINUTE)
        reminder = team.only()
        assert "is not running, but its storage is billed" in shown(reminder)
        # A week of $100 a month, in a November of 721 hours.
        assert buttons(reminder) == {"keep:168": "Ask again in a week (+$23.30)", "disown": "Not mine"}
        team.press(reminder, "keep:168")
        assert buttons(reminder) == {}
        team.later(7 * DAY - HOUR, every=2 * DAY)
        assert len(team.sent()) == 1
        team.later(HOUR)
        assert len(team.sent()) == 2
        team.world.start(PROJECT, "trainer")
        team.later(5 * MINUTE)
        assert [buttons(message) for message in team.sent()] == [{}, {}]


def test_an_idle_vm_is_asked_about_before_its_limit(sqlite_url: str) -> None:
    """After an hour in which its GPU did nothing, with the evidence; a busy one is left alone."""
    with story(sqlite_url, idle={"enabled": True}) as team:
        team.vm("lazy")
        team.vm("eager")
        team.world.set_load(PROJECT, "lazy", Load.IDLE)
        team.world.set_load(PROJECT, "eager", Load.BUSY)
        team.later(2 * HOUR, every=10 * MINUTE)
        reminder = team.only()
        assert "lazy is still running" in shown(reminder)
        assert "*Idle* since" in shown(reminder)
        assert "GPU under 5 %" in shown(reminder)
        team.world.set_load(PROJECT, "lazy", Load.BUSY)
        team.later(HOUR, every=10 * MINUTE)
        team.later(4 * HOUR, every=HOUR)
        assert "It is no longer due." in shown(team.only())


def test_only_one_that_is_there_is_asked_about(sqlite_url: str) -> None:
    """Deleted and made again under its name, the VM is another one with a limit of its own."""
    with story(sqlite_url) as team:
        team.vm()
        team.later(8 * HOUR)
        team.world.delete(PROJECT, "trainer")
        team.later(5 * MINUTE)
        team.vm()
        team.later(4 * HOUR)
        assert "It was deleted" in shown(team.only())
        team.later(4 * HOUR)
        assert (team.last().thread_ts, len(team.sent())) == ("", 2)
