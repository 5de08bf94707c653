"""[slack]."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from costguard.settings.environment import OF_SLACK, SLACK_APP_TOKEN, SLACK_SIGNING_SECRET, SLACK_TOKEN
from costguard.settings.problems import Raw, SettingProblem
from costguard.settings.values import Channel, Section, endpoint

_SLACK_SECRETS = {
    SLACK_TOKEN: re.compile(r"xoxb-[!-~]+"),
    SLACK_SIGNING_SECRET: re.compile(r"[!-~]{16,}"),
    SLACK_APP_TOKEN: re.compile(r"xapp-[!-~]+"),
}
_AT_SLACK = "of the app at https://api.slack.com/apps"
_SLACK_WORDS = {
    SLACK_TOKEN: "the bot token (xoxb-...) that the page OAuth & Permissions "
    f"{_AT_SLACK} shows once it is installed (deploy/slack-manifest.yaml makes the app)",
    SLACK_SIGNING_SECRET: f"the signing secret on the page Basic Information {_AT_SLACK}",
    SLACK_APP_TOKEN: "an app-level token (xapp-...) with the scope connections:write, made on the page "
    f"Basic Information {_AT_SLACK}",
}


def slack_endpoint(value: str) -> str:
    """The base address of a Slack Web API, with the slash at its end that its client needs."""
    try:
        return f"{endpoint(value)}/"
    except ValueError:
        raise ValueError(
            "the address of a Slack Web API such as http://127.0.0.1:9000/slack/api/, with http:// or https://, "
            "and no user or query"
        ) from None


def dashboard_url(value: str) -> str:
    """The dashboard's address, without the slash at its end."""
    try:
        return endpoint(value)
    except ValueError:
        raise ValueError(
            "the dashboard's address as people reach it, such as https://costguard.example.com, without user or query"
        ) from None


class SlackSection(Section):
    """The place where messages are posted. The three secrets come from the environment, never from the file."""

    channel: Channel
    endpoint: Annotated[str, AfterValidator(slack_endpoint)] | None = None  # None: Slack's own
    socket_mode: bool = False
    url: Annotated[str, AfterValidator(dashboard_url)] | None = None
    budget_channel: Channel = Field(default_factory=lambda given: given.get("channel", ""))
    token: SecretStr = Field(default=SecretStr(""), exclude=True)  # never empty: see `check`
    signing_secret: SecretStr | None = Field(default=None, exclude=True)
    app_token: SecretStr | None = Field(default=None, exclude=True)


def check(raw: Raw, secrets: Mapping[str, str]) -> Iterator[SettingProblem]:
    slack = raw.get("slack")
    if not isinstance(slack, dict):
        return
    for key, variable in OF_SLACK.items():
        if key in slack:
            yield SettingProblem(("slack", key), f"no such key; it comes from the environment: {variable}")
        if (given := secrets.get(variable)) and not _SLACK_SECRETS[variable].fullmatch(given):
            yield SettingProblem((), f"expected {_SLACK_WORDS[variable]}", variable)
    if SLACK_TOKEN not in secrets:
        yield SettingProblem(("slack",), f"needs {_SLACK_WORDS[SLACK_TOKEN]}, in {SLACK_TOKEN}")
    if slack.get("socket_mode") is True and SLACK_APP_TOKEN not in secrets:
        words = f"needs {_SLACK_WORDS[SLACK_APP_TOKEN]}, in {SLACK_APP_TOKEN}"
        yield SettingProblem(("slack", "socket_mode"), words)
