"""Errors of Pub/Sub in plain words: which subscription or topic, what happened, what to do next."""

from __future__ import annotations

from costguard.errors import (
    BadAnswer,
    CloudError,
    CloudUnavailable,
    CredentialsRefused,
    NotFound,
    PermissionDenied,
    RateLimited,
    RequestRefused,
)
from costguard.gce.errors import Service, ServiceOff

PUBSUB = Service(
    "Pub/Sub", "pubsub.googleapis.com", "roles/pubsub.subscriber", role_file="service/docs/organisation.md"
)
_LATER = "Nothing is lost: messages stay for 7 days, and it is tried again by itself."


def in_words(error: CloudError, resource: str, account: str) -> CloudError:
    """The same error with what mends it for this subscription or topic.

    `resource` is `projects/P/subscriptions/S` or `projects/P/topics/T`; `account` may be "".
    """
    if isinstance(error, ServiceOff | CredentialsRefused):
        return error  # its own words say what to do
    said = error.message
    made = _of_kind(error, said, resource, account or "the account that Costguard runs as")
    made.retry_after, made.refusal = error.retry_after, error.refusal
    return made


def _of_kind(error: CloudError, said: str, resource: str, grantee: str) -> CloudError:
    _, project, kind, name = resource.split("/")
    noun = "feed.subscription" if kind == "subscriptions" else "the topic of feed.subscription"
    role = PUBSUB.role if kind == "subscriptions" else "roles/pubsub.publisher"
    if isinstance(error, PermissionDenied):
        grant = f"gcloud pubsub {kind} add-iam-policy-binding {name} --project={project} --role={role}"
        return PermissionDenied(said, f"Grant it with `{grant} --member=...` to {grantee}.")
    if isinstance(error, NotFound):
        return NotFound(
            said,
            f"Check {noun} against `gcloud pubsub {kind} list --project={project}`, or make it as "
            "`costguard google-feed` says.",
        )
    if isinstance(error, RateLimited):
        return RateLimited(said, f"Lower feed.pulls, or ask for more of Pub/Sub's quota in project {project}. {_LATER}")
    if isinstance(error, CloudUnavailable):
        return CloudUnavailable(said, _LATER)
    if isinstance(error, BadAnswer):
        return BadAnswer(said, f"Check feed.endpoint, if one is set. {_LATER}")
    return RequestRefused(said, f"Check {noun}: a push subscription, for one, cannot be pulled. {_LATER}")
