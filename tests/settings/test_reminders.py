"""Settings about people: where and when they are notified, and what follows when nobody answers."""

from __future__ import annotations

from datetime import time, timedelta
from pathlib import Path

from tests.settings.reading import read

from costguard.access.rules import Access, Protection
from costguard.model.budget import Scope
from costguard.model.keeper import KeeperKind
from costguard.model.money import Money
from costguard.model.reminder import Enforcement, QuietRule, ReminderRule, StorageRule, Team

SMALLEST = '[watch]\nprojects = ["ml-training", "ml-serving"]\n'
SLACK = SMALLEST + '[slack]\nchannel = "#gpu-costs"\n'
TOKEN = {"COSTGUARD_SLACK_TOKEN": "xoxb-1-2-three"}


def test_rules_of_a_file_with_its_projects_alone(tmp_path: Path) -> None:
    """Nobody can be notified, nothing is stopped, and evenings and weekends are quiet in UTC."""
    rules = read(tmp_path, SMALLEST).rules()
    assert list(rules.presets) == ["t4", "a100", "multi-gpu", "other"]
    assert (rules.channel, rules.contact, rules.time_zone, rules.is_shadow) == ("", "", "UTC", True)
    assert rules.quiet == QuietRule(time(20), time(8), frozenset({5, 6}), Money.of(20))
    assert rules.rest == StorageRule(timedelta(days=3), timedelta(weeks=1))
    assert (rules.teams, rules.budgets, rules.access, rules.protection) == ((), (), Access(), Protection())


def test_shipped_presets_ask_again_each_in_its_time(tmp_path: Path) -> None:
    """The dearer a kind of VM, the sooner; all of them only remind."""
    presets = read(tmp_path, SMALLEST).rules().presets
    hours = {name: preset.reminders.every // timedelta(hours=1) for name, preset in presets.items()}
    assert hours == {"t4": 4, "a100": 6, "multi-gpu": 2, "other": 4}
    assert {preset.reminders.enforcement for preset in presets.values()} == {Enforcement.REMIND}


def test_what_follows_a_presets_limit(tmp_path: Path) -> None:
    """Every key of a preset about reminders reaches its rule."""
    text = SLACK + (
        '[presets.t4]\nremind_every = "30m"\nkeeps = 0\nlongest_keep = "12h"\n'
        'when_unanswered = "stop"\nstop_after = 1\ngrace = "10m"\n'
    )
    rule = read(tmp_path, text, **TOKEN).rules().presets["t4"].reminders
    assert rule == ReminderRule(
        every=timedelta(minutes=30),
        keeps=0,
        longest_keep=timedelta(hours=12),
        enforcement=Enforcement.STOP,
        stop_after=1,
        grace=timedelta(minutes=10),
    )


def test_when_people_are_notified(tmp_path: Path) -> None:
    """Hours and days in a zone; `never` takes the place of each."""
    text = SMALLEST + (
        '[reminders]\ntime_zone = "Europe/Vienna"\nquiet_hours = "12:30-13:15"\nquiet_days = ["mon"]\n'
        'quiet_unless_above = "0.50"\ncontact = "Lead@Example.com"\n'
        'daily_digest = "07:45"\nweekly_digest = "fri 16:00"\n'
    )
    settings = read(tmp_path, text)
    rules, digests = settings.rules(), settings.digests
    assert rules.quiet == QuietRule(time(12, 30), time(13, 15), frozenset({0}), Money.of("0.50"))
    assert (rules.time_zone, rules.contact) == ("Europe/Vienna", "lead@example.com")
    assert (digests.daily, digests.weekly, digests.weekday) == (time(7, 45), time(16), 4)
    assert digests.time_zone == "Europe/Vienna"
    never = "".join(
        f'{key} = "never"\n'
        for key in ("quiet_hours", "quiet_unless_above", "storage_after", "daily_digest", "weekly_digest")
    )
    settings = read(tmp_path, f"{SMALLEST}[reminders]\nquiet_days = []\n{never}")
    rules, digests = settings.rules(), settings.digests
    assert (rules.quiet.starts == rules.quiet.ends, rules.quiet.days) == (True, frozenset())
    assert (rules.quiet.unless_above, rules.rest.after) == (None, None)
    assert (digests.daily, digests.weekly) == (None, None)


def test_who_may_do_what_and_what_is_spared(tmp_path: Path) -> None:
    """Addresses are compared in lower case; teams keep the file's order."""
    text = SLACK + (
        '[access]\nviewers = ["@Example.com"]\noperators = ["Ops@example.com"]\nadmins = []\n'
        '[enforcement]\nshadow = false\nprotect_label = "spare"\nprotect_projects = ["ml-serving"]\n'
        'protect_names = ["*-prod", "db-[0-9]"]\n'
        'stop_through = ["group"]\n'
        '[teams.z]\nmembers = ["Ana@example.com"]\noperators = ["ben@example.com"]\nprojects = ["ml-training"]\n'
        'channel = "#z"\n[teams.a]\n'
        '[budgets.z]\nlimit = 9\nperiod = "day"\ncontact = "Eve@example.com"\nscope = { team = "z" }\n'
    )
    rules = read(tmp_path, text, **TOKEN).rules()
    assert rules.access == Access(
        frozenset({"@example.com"}), frozenset({"ops@example.com"}), frozenset(), frozenset({"ben@example.com"})
    )
    assert rules.protection == Protection("spare", frozenset({"ml-serving"}), ("*-prod", "db-[0-9]"))
    assert rules.stop_through == {KeeperKind.GROUP}
    assert not rules.is_shadow
    members, operators = frozenset({"ana@example.com"}), frozenset({"ben@example.com"})
    assert rules.teams == (Team("z", members, operators, frozenset({"ml-training"}), "#z"), Team("a"))
    (budget,) = rules.budgets
    assert (budget.scope, budget.contact) == (Scope(team="z"), "eve@example.com")


def test_slack(tmp_path: Path) -> None:
    """A channel and a token are enough to send; budgets are reported there too, and buttons need another secret."""
    assert read(tmp_path, SMALLEST).slack is None
    settings = read(tmp_path, SLACK, **TOKEN)
    slack = settings.slack
    assert slack is not None
    assert settings.rules().channel == slack.channel == slack.budget_channel == "#gpu-costs"
    assert (slack.endpoint, slack.url, slack.signing_secret, slack.app_token) == (None, None, None, None)
    assert slack.token.get_secret_value() == TOKEN["COSTGUARD_SLACK_TOKEN"]
    assert not slack.socket_mode
    signed = read(tmp_path, SLACK, **TOKEN, COSTGUARD_SLACK_SIGNING_SECRET="0123456789abcdef0123456789abcdef").slack
    assert signed is not None
    assert signed.signing_secret is not None
    text = SLACK + (
        'budget_channel = "C0123456789"\nsocket_mode = true\nurl = "https://costs.example.com/gpu/"\n'
        'endpoint = "http://127.0.0.1:9000/slack/api"\n'
    )
    socket = read(tmp_path, text, **TOKEN, COSTGUARD_SLACK_APP_TOKEN="xapp-1-A1").slack
    assert socket is not None
    assert socket.socket_mode
    assert (socket.budget_channel, socket.url) == ("C0123456789", "https://costs.example.com/gpu")
    assert socket.endpoint == "http://127.0.0.1:9000/slack/api/"


def test_slacks_secrets_do_not_show(tmp_path: Path) -> None:
    """Neither the settings' text nor their dump holds a secret of Slack."""
    given = {"TOKEN": "xoxb-hunter2", "SIGNING_SECRET": "hunter2hunter2hunter2", "APP_TOKEN": "xapp-hunter2"}
    settings = read(tmp_path, SLACK, **{f"COSTGUARD_SLACK_{name}": value for name, value in given.items()})
    assert "hunter2" not in repr(settings) + settings.model_dump_json()


def test_secrets_in_files(tmp_path: Path) -> None:
    """A variable's name and _FILE names a file with the secret; the line's end is not part of it."""
    given = {
        "COSTGUARD_TOKEN": "a-token-that-nobody-guesses",
        "COSTGUARD_DATABASE_URL": "postgresql+psycopg://me:secret@host/db",
        "COSTGUARD_SLACK_TOKEN": "xoxb-1-2-three",
        "COSTGUARD_SLACK_SIGNING_SECRET": "0123456789abcdef0123456789abcdef",
        "COSTGUARD_SLACK_APP_TOKEN": "xapp-1-A1",
    }
    environ = {}
    for variable, value in given.items():
        (tmp_path / variable).write_text(value + "\n")
        environ[f"{variable}_FILE"] = str(tmp_path / variable)
    settings = read(tmp_path, SLACK, **environ)
    slack = settings.slack
    assert slack is not None
    secrets = (settings.token, settings.database.url, slack.token, slack.signing_secret, slack.app_token)
    assert [secret.get_secret_value() if secret else None for secret in secrets] == list(given.values())


def test_slacks_secrets_without_the_section(tmp_path: Path) -> None:
    """Variables of another program for Slack are no mistake."""
    assert read(tmp_path, SMALLEST, COSTGUARD_SLACK_TOKEN="?", COSTGUARD_SLACK_APP_TOKEN_FILE="/absent").slack is None
