"""Wrong settings of Slack, reminders, teams and secrets are described."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.settings.reading import refused

GOOD = '[watch]\nprojects = ["ml-training"]\n'
BUDGET = GOOD + "[budgets.x]\nlimit = 10\nperiod = 'day'\n"
SLACK = GOOD + '[slack]\nchannel = "#costs"\n'
BOT = {"COSTGUARD_SLACK_TOKEN": "xoxb-1-2-three"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (GOOD + "[slack]\n", "costguard.toml:3: slack.channel: missing; expected the channel for VMs of no team"),
        (GOOD + '[slack]\nchannel = "Costs"\n', 'given "Costs", expected a Slack channel such as "#gpu-costs", or its'),
        (GOOD + '[slack]\nchannel = "Costs"\n', "(did you mean #costs?)"),
        (
            SLACK + 'endpoint = "slack.com/api"\n',
            "expected the address of a Slack Web API such as http://127.0.0.1:9000",
        ),
        (SLACK + 'url = "costs.example.com"\n', 'slack.url: given "costs.example.com", expected the dashboard\'s addr'),
        (SLACK + "socket_mode = true\n", "costguard.toml:5: slack.socket_mode: needs an app-level token (xapp-...)"),
        (
            SLACK + 'bot_token = "x"\n',
            "slack.bot_token: no such key; secrets come from the environment: COSTGUARD_SLACK",
        ),
        ("reminders.time_zone = 'Europe/Wien'\n" + SLACK, "expected a time zone of the IANA database"),
        ("reminders.time_zone = 'America/New York'\n" + SLACK, "(did you mean America/New_York?)"),
        ("reminders.time_zone = 'America'\n" + SLACK, 'given "America", expected a time zone'),
        ("reminders.time_zone = ''\n" + SLACK, 'given "", expected a time zone'),
        ("reminders.quiet_hours = '8-20'\n" + SLACK, 'a start and an end, such as "20:00-08:00", or "never"'),
        ("reminders.quiet_hours = '08:00-08:00'\n" + SLACK, "two different times"),
        ("reminders.quiet_days = ['Sat']\n" + SLACK, 'a list of days, such as ["sat", "sun"] or []'),
        ("reminders.quiet_unless_above = 0.5\n" + SLACK, '(did you mean "0.5"?), or "never"'),
        ("reminders.storage_after = '1m'\n" + SLACK, "a time from 10m to 52w"),
        ("reminders.daily_digest = 09:00:00\n" + SLACK, "given 09:00:00, expected a time of day in quotes"),
        ("reminders.daily_digest = '24:00'\n" + SLACK, 'such as "09:00" or "17:30", or "never"'),
        ("reminders.weekly_digest = '09:00'\n" + SLACK, 'a day and a time on it, such as "mon 09:00", or "never"'),
        ("reminders.contact = 'lead'\n" + SLACK, 'given "lead", expected a mail address'),
        ("enforcement.protect_projects = ['ml-trainin']\n" + SLACK, "ml-training (did you mean ml-training?)"),
        (
            "enforcement.stop_through = ['group', 'gke']\n" + SLACK,
            'enforcement.stop_through[1]: given "gke", expected a keeper that has a stop of its own: "group"',
        ),
        (
            "enforcement.protect_names = ['DB']\n" + SLACK,
            'enforcement.protect_names[0]: given "DB", expected a VM\'s name',
        ),
        (
            f"enforcement.protect_names = ['{'*a' * 9}']\n" + SLACK,
            "expected a pattern of at most 128 characters with at most 8 stars",
        ),
        ("access.admins = ['@lab']\n" + SLACK, "or @example.com for all of a domain"),
        ("access.admins = ['*@example.com']\n" + SLACK, 'of a domain (did you mean "@example.com"?)'),
        ("access.viewers = ['example.com']\n" + SLACK, '(did you mean "@example.com"?)'),
        ("access.viewers = [' @Example.com ']\n" + SLACK, '(did you mean "@example.com"?)'),
        ("access.operators = ['<ana@example.com>']\n" + SLACK, '(did you mean "ana@example.com"?)'),
        (
            "access.operators = ['ana@']\n" + SLACK,
            'given "ana@", expected a mail address such as ana@example.com, or @ex',
        ),
        ("access.operators = ['*ana@example.com']\n" + SLACK, "expected a mail address"),
        ("access.viewers = ['@gmail.com']\n" + SLACK, "anyone can have an address @gmail.com, so name each person"),
        ("access.admins = ['@Outlook.com']\n" + SLACK, "anyone can have an address @outlook.com"),
        ("teams.a.operators = ['*@example.com']\n" + SLACK, "patterns are not allowed here: name each person"),
        ("owners.map = {ana = '*@example.com'}\n" + SLACK, "patterns are not allowed here"),
        (
            "owners.domain = '*@example.com'\n" + SLACK,
            'expected a mail domain such as example.com (did you mean "example.com"?)',
        ),
        ("server.trusted_proxies = ['*']\n" + SLACK, "expected an address, or a range of them such as 10.0.0.0/8"),
        ("server.trusted_proxies = ['0.0.0.0/0']\n" + SLACK, "anyone could be behind 0.0.0.0/0, so name the proxies"),
        ("server.trusted_proxies = ['10.0.0.5/8']\n" + SLACK, "(did you mean 10.0.0.0/8?)"),
        ("database.url = 'sqlite:///a.db?widest_mode=rw'\n" + SLACK, "at most ?widest_mode=0660"),
        (
            "teams.a.members = ['@example.com']\n" + SLACK,
            'teams.a.members[0]: given "@example.com", expected a mail ad',
        ),
        (
            "teams.a.projects = ['ml-else']\n" + SLACK,
            'teams.a.projects[0]: given "ml-else", expected a watched project',
        ),
        ("teams.A = {}\n" + SLACK, 'teams.A: given "A", expected a name of small'),
        ("teams.vision = {}\n" + BUDGET + "scope.team = 'vison'\n", "expected a team: vision (did you mean vision?)"),
        (BUDGET + "scope.team = 'x'\n", "expected a team: none is named"),
        ("presets.t4.when_unanswered = 'delete'\n" + SLACK, 'given "delete", expected "remind" or "stop"'),
        ("presets.t4.when_unanswered = 'suspend'\n" + SLACK, 'given "suspend", expected "remind" or "stop"'),
        ("presets.t4.when_unanswered = 'stop'\n" + GOOD, "without a section [slack] nobody could be warned"),
        ("presets.t4.stop_after = 0\n" + SLACK, "presets.t4.stop_after: given 0, expected at least 1"),
        ("presets.t4.grace = '5m'\n" + SLACK, "expected a time from 10m to 1w"),
        ("presets.t4.remind_every = 'never'\n" + SLACK, 'presets.t4.remind_every: given "never", expected a time with'),
    ],
)
def test_each_kind_of_problem_with_people(tmp_path: Path, text: str, sentence: str) -> None:
    """The text about channels, times, zones, teams and warnings says what to write; a default is no second problem."""
    error = refused(tmp_path, text, **BOT)
    assert sentence in error.message
    assert error.message.startswith("There is 1 problem")


def test_slack_needs_its_token(tmp_path: Path) -> None:
    """The section alone sends nothing: the error says where the token is shown and which variable holds it."""
    assert "costguard.toml:3: slack: needs the bot token (xoxb-...)" in refused(tmp_path, SLACK).message


def test_slacks_secrets_are_distinguished(tmp_path: Path) -> None:
    """A token of another kind is refused by the name of its variable, and none stands in the file or in a message."""
    text = SLACK + 'token = "xoxb-hunter2"\n'
    given = {"TOKEN": "xoxp-hunter2", "SIGNING_SECRET": "hunter2", "APP_TOKEN": "xoxb-hunter2"}
    error = refused(tmp_path, text, **{f"COSTGUARD_SLACK_{name}": value for name, value in given.items()})
    assert "hunter2" not in str(error)
    assert "  COSTGUARD_SLACK_TOKEN: expected the bot token (xoxb-...)" in error.message
    assert "  COSTGUARD_SLACK_SIGNING_SECRET: expected the signing secret" in error.message
    assert "  COSTGUARD_SLACK_APP_TOKEN: expected an app-level token (xapp-...)" in error.message
    assert "slack.token: no such key; it comes from the environment: COSTGUARD_SLACK_TOKEN" in error.message
    assert error.message.startswith("There are 4 problems")


def test_files_of_secrets(tmp_path: Path) -> None:
    """A file that is absent, empty or no text, and a variable next to it, are reported by the variable's name."""
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    error = refused(
        tmp_path,
        SLACK,
        COSTGUARD_TOKEN="a-token-that-nobody-guesses",
        COSTGUARD_TOKEN_FILE=str(tmp_path / "empty"),
        COSTGUARD_SLACK_TOKEN_FILE=str(tmp_path / "absent"),
        COSTGUARD_SLACK_SIGNING_SECRET_FILE=str(tmp_path / "empty"),
        COSTGUARD_DATABASE_URL_FILE=str(tmp_path / "binary"),
    )
    assert "COSTGUARD_TOKEN_FILE: COSTGUARD_TOKEN is set as well; expected one of the two" in error.message
    assert "absent cannot be read: No such file or directory" in error.message
    assert "empty is empty; expected the secret in it" in error.message
    assert "binary is not text" in error.message
    (tmp_path / "url").write_text("mysql://u:hunter2@h/d")
    wrong = refused(tmp_path, GOOD, COSTGUARD_DATABASE_URL_FILE=str(tmp_path / "url"))
    assert "COSTGUARD_DATABASE_URL_FILE: given an address (not shown" in wrong.message
    assert "hunter2" not in wrong.message
