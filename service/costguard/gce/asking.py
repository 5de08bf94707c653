"""Asks Google what an account may do and what there is: reads alone, for the check of a set-up.

Shapes by the discovery documents: cloudresourcemanager v3 and iam v1 testIamPermissions, serviceusage v1
services.batchGet (at most 30 names), storage v1 buckets.testIamPermissions, bigquery v2 tables.testIamPermissions, and
compute v1. testIamPermissions takes at most 100 permissions, and answers `{}` where it grants none of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from costguard.errors import BadAnswer, CredentialsRefused, NotFound, PermissionDenied
from costguard.gce.errors import COMPUTE, Service, from_exception
from costguard.gce.machine_types import by_rule
from costguard.gce.session import Deadline, Http
from costguard.model.launch import Quota

if TYPE_CHECKING:
    from requests.adapters import BaseAdapter

ASKING_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)  # the one that all of these take
DELETED_TOPIC = "_deleted-topic_"  # as Pub/Sub names the topic of a subscription that lost it
QUESTION_S = 6.0  # with its repetitions
_TIMEOUT_S = 5.0
_MOST_PERMISSIONS, _MOST_SERVICES = 100, 30
_READER = "deploy/iam-role.yaml"
PROJECTS = Service("Cloud Resource Manager", "cloudresourcemanager.googleapis.com", "roles/browser", _READER)
SERVICES = Service("Service Usage", "serviceusage.googleapis.com", "roles/serviceusage.serviceUsageViewer", _READER)
ACCOUNTS = Service("IAM", "iam.googleapis.com", "roles/iam.serviceAccountViewer", _READER)
STORAGE = Service("Cloud Storage", "storage.googleapis.com", "roles/storage.objectViewer", _READER)
PUBSUB = Service("Pub/Sub", "pubsub.googleapis.com", "roles/pubsub.subscriber", _READER)
BIGQUERY = Service("BigQuery", "bigquery.googleapis.com", "roles/bigquery.dataViewer", _READER)
TOKENS = Service("Google's tokens", "oauth2.googleapis.com", "", _READER)


@dataclass(frozen=True, slots=True)
class TokenOwner:
    account: str
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class ProjectQuotas:
    """Quotas that span regions, and the account that VMs run as where a preset says "default"."""

    quotas: Mapping[str, Quota]
    default_account: str


@dataclass(frozen=True, slots=True)
class OtherEndpoints:
    """Holds the endpoints of services that settings may place elsewhere; None: Google's own."""

    buckets: str | None = None
    tables: str | None = None
    feed: str | None = None


class SetupQuestions:
    """Thread-safe. Every method raises CloudError where Google gives no usable answer, within QUESTION_S.

    `google` and `others` are endpoints in the place of Google's, reached without credentials.
    """

    def __init__(
        self,
        google: str | None,
        *,
        others: OtherEndpoints | None = None,
        credentials: Any = None,
        wait: Callable[[float], bool],
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
        adapter: BaseAdapter | None = None,
    ) -> None:
        http = partial(
            Http, credentials=credentials, timeout_s=_TIMEOUT_S, wait=wait, scopes=ASKING_SCOPES, adapter=adapter
        )
        self._google = http(google)
        others = others or OtherEndpoints()
        self._buckets, self._tables, self._feed = http(others.buckets), http(others.tables), http(others.feed)
        self._monotonic = monotonic
        self._now = now
        self.ahead: timedelta | None = None  # how far our clock is ahead of Google's, once `owner` was asked

    def close(self) -> None:
        for http in (self._google, self._buckets, self._tables, self._feed):
            http.close()

    def owner(self) -> TokenOwner:
        """Tells whose the credentials are. A service account says so itself; of a person's, Google tells it."""
        account, params = "", {}
        if self._google.is_authorised:
            account, token = self._token()
            params = {"access_token": token}
        info = self._get(self._google, "/tokeninfo", params, "the credentials", TOKENS, "Reading whose they are")
        with suppress(ValueError):
            self.ahead = self._now() - parsedate_to_datetime(self._google.date)
        scopes = info.get("scope")
        if not isinstance(scopes, str):
            raise BadAnswer("The answer about the credentials names no scopes.")
        email = info.get("email")
        return TokenOwner(account or (email if isinstance(email, str) else ""), frozenset(scopes.split()))

    def _token(self) -> tuple[str, str]:
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request

        try:
            credentials = self._google.google_credentials()
            if not credentials.valid:
                credentials.refresh(Request())
        except (GoogleAuthError, OSError) as error:
            raise from_exception(error, "-", "Signing in", service=TOKENS) from error
        if not credentials.token:
            raise CredentialsRefused("Google's credentials hold no token.")
        return self._google.account, str(credentials.token)

    def granted_in_project(self, project: str, names: Sequence[str]) -> frozenset[str]:
        path = f"/v3/projects/{quote(project, safe=':')}:testIamPermissions"
        granted: frozenset[str] = frozenset()
        for some in _pieces(names, _MOST_PERMISSIONS):
            granted |= self._granted(self._google, path, some, project, PROJECTS)
        return granted

    def granted_on_place(self, place: str, names: Sequence[str]) -> frozenset[str]:
        """Asks about `organizations/N` or `folders/N`. An answer `{}` grants nothing."""
        return self._granted(self._google, f"/v3/{place}:testIamPermissions", names, place, PROJECTS)

    def granted_on_account(self, account: str, names: Sequence[str]) -> frozenset[str]:
        """Raises NotFound where there is no such account."""
        path = f"/v1/projects/-/serviceAccounts/{quote(account, safe='@')}"
        granted = self._granted(self._google, f"{path}:testIamPermissions", names, account, ACCOUNTS)
        return granted or self._confirmed(self._google, path, account, ACCOUNTS)

    def granted_on_bucket(self, bucket: str, names: Sequence[str]) -> frozenset[str]:
        what = "Reading permissions"
        path = f"/storage/v1/b/{quote(bucket, safe='')}/iam/testPermissions"
        answer = self._get(self._buckets, path, {"permissions": list(names)}, bucket, STORAGE, what)
        _must_be(answer, "storage#testIamPermissionsResponse", f"{what} on {bucket}")
        return _permissions(answer, names, bucket, {"kind"})

    def granted_on_table(self, table: str, names: Sequence[str]) -> frozenset[str]:
        project, dataset, name = table.rsplit(".", 2)
        path = f"/bigquery/v2/projects/{quote(project, safe=':')}/datasets/{dataset}/tables/{name}"
        granted = self._granted(self._tables, f"{path}:testIamPermissions", names, table, BIGQUERY)
        return granted or self._confirmed(self._tables, path, table, BIGQUERY)

    def granted_on_subscription(self, subscription: str, names: Sequence[str]) -> frozenset[str]:
        """`subscription` is `projects/P/subscriptions/S`. Raises NotFound where there is no such subscription."""
        path = f"/v1/{quote(subscription, safe='/:')}"
        granted = self._granted(self._feed, f"{path}:testIamPermissions", names, subscription, PUBSUB)
        return granted or self._confirmed(self._feed, path, subscription, PUBSUB)

    def granted_on_topic(self, subscription: str, names: Sequence[str]) -> tuple[str, frozenset[str]]:
        """The topic that a subscription is of, and what is granted on it. A deleted one is called _deleted-topic_."""
        path = f"/v1/{quote(subscription, safe='/:')}"
        topic = self._get(self._feed, path, {}, subscription, PUBSUB, "Reading which topic it is of").get("topic")
        if not isinstance(topic, str) or topic.count("/") != 3:
            return DELETED_TOPIC, frozenset()
        of_topic = f"/v1/{quote(topic, safe='/:')}:testIamPermissions"
        return topic, self._granted(self._feed, of_topic, names, topic, PUBSUB)

    def enabled(self, project: str, apis: Iterable[str]) -> Mapping[str, bool]:
        """Tells whether each is enabled; those that Google leaves out are left out."""
        parent = f"projects/{project}"
        states: dict[str, bool] = {}
        for some in _pieces(sorted(apis), _MOST_SERVICES):
            params = {"names": [f"{parent}/services/{api}" for api in some]}
            path = f"/v1/{quote(parent, safe='/:')}/services:batchGet"
            answer = self._get(self._google, path, params, project, SERVICES, "Reading which APIs are enabled")
            services = answer.get("services")
            if not isinstance(services, list):
                raise BadAnswer(f"Reading which APIs of project {project} are enabled: the answer lists no services.")
            for one in services:
                name, state = (one.get("name"), one.get("state")) if isinstance(one, dict) else (None, None)
                api = str(name).rpartition("/")[2]
                if api in some and state in ("ENABLED", "DISABLED"):
                    states[api] = state == "ENABLED"
        return states

    def project(self, project: str) -> ProjectQuotas:
        path = f"/compute/v1/projects/{quote(project, safe=':')}"
        what = "Reading the quotas across regions"
        answer = self._get(self._google, path, {}, project, COMPUTE, what)
        _must_be(answer, "compute#project", f"{what} of project {project}", project)
        return ProjectQuotas(_quotas(answer, what), str(answer.get("defaultServiceAccount") or ""))

    def region(self, project: str, region: str) -> Mapping[str, Quota]:
        path = f"/compute/v1/projects/{quote(project, safe=':')}/regions/{region}"
        what = f"Reading the quotas of region {region}"
        answer = self._get(self._google, path, {}, project, COMPUTE, what)
        _must_be(answer, "compute#region", f"{what} of project {project}", region)
        return _quotas(answer, what)

    def has_image(self, project: str, image: str) -> bool:
        """`image` as settings write it: `projects/P/global/images/family/F`, or without the project for the own one."""
        place = image if image.startswith("projects/") else f"projects/{project}/{image}"
        return self._is_there(f"/compute/v1/{quote(place, safe='/:')}", project, "image", "")

    def has_machine_type(self, project: str, zone: str, name: str) -> bool:
        return self._is_there(self._in_zone(project, zone, "machineTypes", name), project, "machineType", name)

    def has_gpu(self, project: str, zone: str, name: str) -> bool:
        return self._is_there(self._in_zone(project, zone, "acceleratorTypes", name), project, "acceleratorType", name)

    def vcpus(self, project: str, zone: str, name: str) -> int:
        path, what = self._in_zone(project, zone, "machineTypes", name), f"Reading machine type {name}"
        answer = self._get(self._google, path, {}, project, COMPUTE, what)
        _must_be(answer, "compute#machineType", what, name)
        count = answer.get("guestCpus")
        if not isinstance(count, int) or count < 1:
            raise BadAnswer(f"{what}: the answer does not say how many vCPUs it has.")
        return count

    def vcpus_by_name(self, machine_type: str) -> int | None:
        """Returns what the name says, without asking; None of one that has to be asked."""
        shape = by_rule(machine_type)
        return None if shape is None else shape.vcpus

    def _in_zone(self, project: str, zone: str, collection: str, name: str) -> str:
        return f"/compute/v1/projects/{quote(project, safe=':')}/zones/{zone}/{collection}/{quote(name)}"

    def _is_there(self, path: str, project: str, kind: str, name: str) -> bool:
        what = f"Looking for {path.rpartition('/')[2]}"
        try:
            answer = self._get(self._google, path, {}, project, COMPUTE, what)
        except NotFound as error:
            # A stranger's 404, and one about the project, say nothing about it.
            if path.rpartition("/")[2] not in error.message:
                raise
            return False
        _must_be(answer, f"compute#{kind}", f"{what} of project {project}", name)
        return True

    def _granted(self, http: Http, path: str, names: Sequence[str], where: str, service: Service) -> frozenset[str]:
        answer = http.ask_json(
            path,
            {"permissions": list(names)},
            project=where,
            what="Reading permissions",
            deadline=Deadline(QUESTION_S, self._monotonic),
            service=service,
        )
        return _permissions(answer, names, where, set())

    def _confirmed(self, http: Http, path: str, where: str, service: Service) -> frozenset[str]:
        """An answer that grants nothing looks like a proxy's `{}`: it is believed where a read is refused as well."""
        try:
            self._get(http, path, {}, where, service, "Reading")
        except PermissionDenied:
            return frozenset()
        raise BadAnswer(f"The answer about permissions on {where} is empty, and yet it can be read.")

    def _get(
        self, http: Http, path: str, params: Mapping[str, str | Sequence[str]], where: str, service: Service, what: str
    ) -> dict[str, Any]:
        deadline = Deadline(QUESTION_S, self._monotonic)
        return http.get_json(path, params, project=where, what=what, deadline=deadline, service=service)


def _permissions(answer: Mapping[str, Any], names: Sequence[str], where: str, more: set[str]) -> frozenset[str]:
    """Raises BadAnswer for anything but a list of some of the names that were asked for."""
    granted = answer.get("permissions", [])
    is_list = isinstance(granted, list) and all(isinstance(name, str) for name in granted)
    if set(answer) - {"permissions", *more} or not is_list or not set(granted) <= set(names):
        raise BadAnswer(f"Reading permissions on {where}: the answer is not one of testIamPermissions.")
    return frozenset(granted)


def _must_be(answer: Mapping[str, Any], kind: str, what: str, name: str = "") -> None:
    if answer.get("kind") != kind or (name and answer.get("name") != name):
        raise BadAnswer(f"{what}: what came is not that, but {answer.get('kind') or 'something without a kind'}.")


def _quotas(answer: Mapping[str, Any], what: str) -> Mapping[str, Quota]:
    try:
        return {
            str(one["metric"]): Quota(str(one["metric"]), float(one["limit"]), float(one.get("usage", 0)))
            for one in answer["quotas"]
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadAnswer(f"{what}: the answer holds what is no quota ({error!r}).") from error


def _pieces(names: Sequence[str], most: int) -> Iterable[Sequence[str]]:
    return (names[start : start + most] for start in range(0, len(names), most))
