"""Builds `costguard doctor` from the settings.

A question that is not answered in time is unknown, and delays no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import Any

from costguard.doctor.ask_google import GoogleSetup
from costguard.doctor.finding import Finding, NotAnswered, Topic, in_order, unknown
from costguard.doctor.permissions import Feature
from costguard.doctor.questions import Questions
from costguard.doctor.read_server import database_state, server_answers
from costguard.doctor.server_checks import DatabaseState, server
from costguard.gce.asking import OtherEndpoints, SetupQuestions
from costguard.main.messaging import slack_checkup
from costguard.settings import Settings
from costguard.settings.setup_plan import plan_of

_LONGEST_S, _LONGEST_MORE_S = 6.0, 0.1  # 20 projects in 8 s, 500 in 56 s; the goals of 10 and 60 s hold the start too


def examined(
    settings: Settings,
    now: Callable[[], datetime],
    *,
    more: Collection[Feature] = (),
    post: bool = False,
    config: str = "",
    transport: Mapping[str, Any] | None = None,
) -> Sequence[Finding]:
    """Every finding, by topic. Posts one message, and edits it, where `post` says so; changes nothing else.

    `transport`: arguments of `SetupQuestions` that replace those from the settings.
    """
    url = settings.database.url.get_secret_value()
    state = database_state(url, settings.watch.scope)
    database = state if isinstance(state, DatabaseState) else DatabaseState(None)
    plan = plan_of(settings, more, database.watched)
    with Questions(_LONGEST_S + _LONGEST_MORE_S * len(plan.projects)) as questions:
        google = SetupQuestions(
            settings.compute.endpoint,
            others=OtherEndpoints(settings.checkpoints.gcs_endpoint, settings.bill.endpoint, settings.feed.endpoint),
            now=now,
            **{"wait": questions.over.wait, **(transport or {})},
        )
        with closing(google):
            if settings.slack is not None:
                questions.put(
                    "slack", lambda: slack_checkup(settings, now(), with_message=post, accepted_at=database.message_at)
                )
            findings = GoogleSetup(plan, google, questions).findings()
            ahead = google.ahead
        if settings.slack is not None:
            slack = questions.answer("slack")
            findings += [unknown(Topic.SLACK, "token", slack.why)] if isinstance(slack, NotAnswered) else slack
    here = replace(
        server_answers(url, state, settings.database.backups),
        ahead=ahead if settings.slack is None else None,  # Slack's answer shows it as well
        guard_url=settings.jobs.guard_url or "",
        config=config,
        reads_prices=settings.prices.enabled,
    )
    return in_order([*findings, *server(here, now())])
