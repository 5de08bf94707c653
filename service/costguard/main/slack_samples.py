"""Builds what `costguard slack samples` does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from costguard.doctor.finding import Finding
from costguard.main.messaging import slack_of
from costguard.messages import sample_sending
from costguard.settings import Settings
from costguard.slack.client import SlackNotifier
from costguard.slack.web_api import ENDPOINT


def send_samples(settings: Settings, address: str, now: datetime, pause: sample_sending.Pause) -> Iterator[Finding]:
    """Yields a finding for each sample that was sent. Raises SettingsError."""
    slack = slack_of(settings)
    notifier = SlackNotifier(slack.token.get_secret_value(), slack.endpoint or ENDPOINT)
    return sample_sending.send(notifier, address, now, settings.reminders.time_zone, pause)
