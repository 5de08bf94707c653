"""Messages to Slack and webhooks, built from the settings, and the check of the Slack setup."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime

from costguard import __version__
from costguard.access.rules import Rules
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.doctor.finding import Finding
from costguard.doctor.server_checks import owners_role
from costguard.errors import SettingsError
from costguard.messages.digest import DigestWatch
from costguard.messages.digest_schedule import DigestRule
from costguard.messages.first_report import FirstReportWatch
from costguard.messages.kinds import by_kind
from costguard.messages.notification import NotificationWatch
from costguard.messages.outbox import Outbox
from costguard.messages.recipients import AccountLookups
from costguard.messages.reminder import ReminderComposer
from costguard.messages.unused_reservations import ReservationWatch, Unused
from costguard.model.delivery.webhook import WebhookResponse
from costguard.model.ports import Clock
from costguard.processes.wire import SlackTrouble
from costguard.settings import Settings
from costguard.settings.slack import SlackSection
from costguard.slack.checkup import Setup, check_up
from costguard.slack.client import SlackNotifier
from costguard.slack.web_api import ENDPOINT
from costguard.webhooks.client import HttpPoster
from costguard.webhooks.delivery import Webhooks


def try_out(settings: Settings, clock: Clock, name: str) -> WebhookResponse:
    """Returns this receiver's answer to a test. Raises Missing and WebhookError."""
    with (
        closing(Database.open(settings.database.url.get_secret_value())) as database,
        webhooks(settings, database, clock) as hooks,
    ):
        return hooks.send_test(name)


@contextmanager
def webhooks(
    settings: Settings,
    database: Database,
    clock: Clock,
    count: Callable[[str, str], None] = lambda _name, _outcome: None,
) -> Iterator[Webhooks]:
    """`count` is called with the outcome of each message to a receiver."""
    poster = HttpPoster(__version__)
    hooks = Webhooks(database, poster, clock, settings.webhook_list(), count)
    try:
        yield hooks
    finally:
        hooks.close()
        poster.close()


def slack_of(settings: Settings) -> SlackSection:
    """Raises SettingsError."""
    if settings.slack is None:
        raise SettingsError(
            "The settings have no [slack] section, so nobody can be reminded.",
            'Add [slack] with channel = "#your-channel"; `costguard config example` shows how.',
        )
    return settings.slack


def slack_checkup(
    settings: Settings, now: datetime, *, with_message: bool, accepted_at: datetime | None = None
) -> list[Finding]:
    """Checks Slack; with a message, one is posted to the channel, and edited. Raises SettingsError.

    `accepted_at`: when Slack last took a message; None where that is not known.
    """
    slack = slack_of(settings)
    teams = [section.channel for section in settings.teams.values() if section.channel]
    setup = Setup(
        bot_token=slack.token.get_secret_value(),
        endpoint=slack.endpoint or ENDPOINT,
        channels=list(dict.fromkeys([slack.channel, slack.budget_channel, *teams])),
        address=settings.reminders.contact or "",
        signing_secret=slack.signing_secret.get_secret_value() if slack.signing_secret is not None else "",
        app_token=slack.app_token.get_secret_value() if slack.socket_mode and slack.app_token is not None else "",
        accepted_at=accepted_at,
    )
    role = owners_role(settings.owners.domain, settings.rules().access)
    return [*check_up(setup, now, post_to=slack.channel if with_message else ""), role]


@dataclass(frozen=True, slots=True)
class Messaging:
    """Everything that sends to Slack."""

    notifier: SlackNotifier
    outbox: Outbox
    lookups: AccountLookups
    reminders: ReminderComposer
    notifications: NotificationWatch
    digests: DigestWatch
    first_report: FirstReportWatch
    reservations: ReservationWatch

    @property
    def trouble(self) -> SlackTrouble:
        """Returns the trouble that keeps people from being notified. Asks no database."""
        workspace, channels = self.outbox.refusals
        return SlackTrouble(workspace=workspace or self.lookups.trouble, channels=dict(channels))

    @property
    def after_pass(self) -> dict[str, Callable[[Lease], object]]:
        """Returns the steps after each pass, in this order."""
        return {
            "notifications": self.notifications.intend,
            "digests": self.digests.intend,
            "first_report": self.first_report.intend,
            "reservations": self.reservations.intend,
        }


def messaging(
    settings: Settings,
    rules: Rules,
    database: Database,
    clock: Clock,
    count: Callable[[str, str], None],
    unused: Unused,
    monotonic: Callable[[], float] = time.monotonic,
) -> Messaging | None:
    """Makes the messaging; None without a [slack] section: then no messages are sent.

    `count` is called with each message's outcome. `unused` reports the reservations that nobody uses.
    """
    slack = settings.slack
    if slack is None:
        return None
    url = slack.url or ""
    notifier = SlackNotifier(slack.token.get_secret_value(), slack.endpoint or ENDPOINT)
    reminders = ReminderComposer(rules, url)
    compose = by_kind(rules, url, reminders)
    digests = settings.digests
    rule = DigestRule(digests.daily, digests.weekly, digests.weekday, digests.time_zone)
    return Messaging(
        notifier=notifier,
        outbox=Outbox(database, notifier, compose, clock, rules.channel, compose.changed, monotonic, count),
        lookups=AccountLookups(database, notifier, clock),
        reminders=reminders,
        notifications=NotificationWatch(database, clock, rules, slack.budget_channel),
        digests=DigestWatch(database, clock, rule, slack.budget_channel),
        first_report=FirstReportWatch(database, clock, rules),
        reservations=ReservationWatch(database, clock, rules, unused),
    )
