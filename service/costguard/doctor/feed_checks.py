"""Judges what Google answered about the feed of events: its subscription, and the topic for heartbeats. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from costguard.doctor.finding import Finding, NotAnswered, Topic, needs, ok, unknown
from costguard.doctor.google_checks import Caller
from costguard.doctor.permissions import GooglePermission, GoogleRole


def grant_on_subscription(subscription: str, role: GoogleRole, who: Caller) -> str:
    _, project, _, name = subscription.split("/")
    given = (f"--project={project}", f"--member={who.member}", f"--role={role.name}")
    return shlex.join(("gcloud", "pubsub", "subscriptions", "add-iam-policy-binding", name, *given))


def subscription(
    name: str, wanted: Sequence[GooglePermission], granted: frozenset[str] | NotAnswered, who: Caller
) -> Iterator[Finding]:
    """Judges whether the events' subscription can be pulled: one line, or one for each permission that lacks."""
    if isinstance(granted, NotAnswered):
        if granted.code != "not_found":
            yield unknown(Topic.EVENTS, "subscription", f"Permissions on {name}: {granted.why}", name)
            return
        project = name.split("/")[1]
        words = f"There is no subscription {name}. Make it with the commands of `costguard google-feed`."
        yield needs(Topic.EVENTS, "subscription", words, f"gcloud pubsub subscriptions list --project={project}", name)
        return
    missing = [one for one in wanted if one.name not in granted]
    if not missing:
        yield ok(Topic.EVENTS, "subscription", f"The subscription {name} can be pulled.", name)
    for one in missing:
        words = f"{name} does not grant {one.name} ({one.reason})."
        yield needs(Topic.EVENTS, one.name, words, grant_on_subscription(name, one.role, who), name)


def topic(
    subscription_name: str,
    wanted: Sequence[GooglePermission],
    answer: tuple[str, frozenset[str]] | NotAnswered,
    who: Caller,
) -> Iterator[Finding]:
    """Judges whether heartbeats can be sent to the topic that the subscription is of."""
    if isinstance(answer, NotAnswered):
        yield unknown(Topic.EVENTS, "topic", f"Permissions on the topic of {subscription_name}: {answer.why}")
        return
    name, granted = answer
    _, project, kind, own = name.split("/") if name.count("/") == 3 else ("", subscription_name.split("/")[1], "", "")
    if kind != "topics":
        words = (
            f"The topic of {subscription_name} was deleted, so no events come. Make topic and subscription again with "
            "the commands of `costguard google-feed`."
        )
        command = f"gcloud pubsub topics list --project={project}"
        yield needs(Topic.EVENTS, "topic", words, command, subscription_name)
        return
    missing = [one for one in wanted if one.name not in granted]
    if not missing:
        yield ok(Topic.EVENTS, "topic", f"Heartbeats can be sent to {name}.", name)
    for one in missing:
        given = (f"--project={project}", f"--member={who.member}", f"--role={one.role.name}")
        command = shlex.join(("gcloud", "pubsub", "topics", "add-iam-policy-binding", own, *given))
        words = (
            f"{name} does not grant {one.name} ({one.reason}). Without it a project is listed in every pass while no "
            "events come."
        )
        yield needs(Topic.EVENTS, one.name, words, command, name)
