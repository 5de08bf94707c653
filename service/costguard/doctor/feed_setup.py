"""The set-up of events: an organisation's sink, its topic, the subscription, and who may do what with them. Pure.

https://docs.cloud.google.com/logging/docs/export/aggregated_sinks: a sink with --include-children copies the entries of
every project below. One with --intercept-children would take them away from the projects' own logs, and is never made.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FILTER = (
    'protoPayload.serviceName="compute.googleapis.com" AND '
    '(log_id("cloudaudit.googleapis.com/activity") OR log_id("cloudaudit.googleapis.com/system_event")) AND '
    r'protoPayload.methodName=~"compute\.(instances|regionInstances)\."'
)
"""Lets through the calls that change VMs, and what Google does to them. Data Access logs hold reads alone.

By the service and not by `resource.type="gce_instance"`: the recorded entry that has the request of a bulk insert is of
an `audited_resource` (GoogleCloudPlatform/gce-license-tracker).
"""

SUBSCRIBER, VIEWER, PUBLISHER = "roles/pubsub.subscriber", "roles/pubsub.viewer", "roles/pubsub.publisher"
_OF_SUBSCRIPTION = ("gcloud", "pubsub", "subscriptions", "add-iam-policy-binding")


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """`scope` is `--organization=NUMBER` or `--folder=NUMBER`; `account` the address that Costguard runs as."""

    scope: str
    project: str
    account: str
    name: str

    @property
    def subscription(self) -> str:
        return f"projects/{self.project}/subscriptions/{self.name}"


def commands(plan: FeedPlan) -> Iterator[str]:
    """Yields the commands in order, for a POSIX shell."""
    for words in _before_the_sink(plan):
        yield shlex.join(words)
    # The identity in whose name Logging publishes is known once the sink is there.
    described = f"gcloud logging sinks describe {shlex.quote(plan.name)} {shlex.quote(plan.scope)}"
    of_topic = ("gcloud", "pubsub", "topics", "add-iam-policy-binding", plan.name, f"--project={plan.project}")
    yield f"{shlex.join(of_topic)} --role={PUBLISHER} --member=\"$({described} --format='value(writerIdentity)')\""
    member = f"--member=serviceAccount:{plan.account}"
    yield shlex.join((*of_topic, f"--role={PUBLISHER}", member))
    for role in (SUBSCRIBER, VIEWER):
        yield shlex.join((*_OF_SUBSCRIPTION, plan.name, f"--project={plan.project}", f"--role={role}", member))


def _before_the_sink(plan: FeedPlan) -> Iterator[Sequence[str]]:
    name, project = plan.name, f"--project={plan.project}"
    topic = f"pubsub.googleapis.com/projects/{plan.project}/topics/{name}"
    yield "gcloud", "services", "enable", "pubsub.googleapis.com", project
    yield "gcloud", "pubsub", "topics", "create", name, project
    yield (
        *("gcloud", "pubsub", "subscriptions", "create", name, project, f"--topic={name}"),
        *("--ack-deadline=60", "--message-retention-duration=7d", "--expiration-period=never"),
    )
    yield (
        *("gcloud", "logging", "sinks", "create", name, topic, plan.scope),
        *("--include-children", f"--log-filter={FILTER}"),
    )
