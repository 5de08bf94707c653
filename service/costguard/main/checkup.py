"""Whether Slack is set up so that everything works, by what the settings say."""

from __future__ import annotations

from datetime import datetime

from costguard.access.roles import without_role
from costguard.errors import SettingsError
from costguard.settings import Settings
from costguard.slack.checkup import Finding, Setup, check_up
from costguard.slack.web_api import ENDPOINT


def slack_checkup(settings: Settings, now: datetime, *, with_message: bool) -> list[Finding]:
    """What works and what does not; with a message, one is posted to the channel. Raises SettingsError."""
    slack = settings.slack
    if slack is None:
        raise SettingsError(
            "The settings have no [slack] section, so nobody can be reminded.",
            'Add [slack] with channel = "#your-channel"; `costguard config init` shows how.',
        )
    teams = [section.channel for section in settings.teams.values() if section.channel]
    setup = Setup(
        bot_token=slack.token.get_secret_value(),
        endpoint=slack.endpoint or ENDPOINT,
        channels=list(dict.fromkeys([slack.channel, slack.budget_channel, *teams])),
        address=settings.reminders.contact or "",
        signing_secret=slack.signing_secret.get_secret_value() if slack.signing_secret is not None else "",
        app_token=slack.app_token.get_secret_value() if slack.socket_mode and slack.app_token is not None else "",
    )
    return [*check_up(setup, now, post_to=slack.channel if with_message else ""), _owners_role(settings)]


def _owners_role(settings: Settings) -> Finding:
    """Owners are reminded whatever their role, and without one their buttons do nothing."""
    domain, rules = settings.owners.domain, settings.rules()
    if domain is None:
        has_role = any((rules.access.viewers, rules.access.operators, rules.access.admins))
        whom, add = "Nobody", 'those who own VMs: viewers = ["@your-domain"]'
    else:
        has_role = not without_role(f"someone@{domain}", rules.access, ())
        whom, add = f"Not everybody at @{domain}", f'viewers = ["@{domain}"]'
    if has_role:
        return Finding(True, "Owners have a role, so they may press buttons.")
    return Finding(
        False,
        f"{whom} has a role, and Slack's buttons and /gpu are for people with one.",
        f"Add {add} under [access]; reminders reach owners without it, too.",
    )
