"""The rights of the account that asks, and the APIs that are on.

In an open project all is granted and on, until one is taken away. In a new one nothing is: the owner makes accounts
and roles, binds them and turns APIs on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ACCOUNT = "costguard@acme-operations.iam.gserviceaccount.com"  # of requests that name no user
SCOPES = ("https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/userinfo.email")
# On in each new project (docs.cloud.google.com/service-usage/docs/enabled-service), and compute, as there are VMs.
ON_AT_FIRST = frozenset(
    f"{name}.googleapis.com" for name in ("compute", "logging", "monitoring", "serviceusage", "storage")
)
_RESOURCE = re.compile(
    r"/compute/v1/projects/[^/]+(?:/(aggregated|zones|regions|global)(?:(?<=aggregated)|(?<=global)|/[^/]+))?"
    r"/(\w+)(?:/([^/]+))?(?:/([^/]+))?"
)
# Resize requests and changes of a group's VMs have no permissions of their own.
_OF_GROUP = re.compile(
    r"/compute/v1/projects/[^/]+/zones/[^/]+/instanceGroupManagers/[^/]+/(?:resizeRequests(?:/.+)?|deleteInstances)"
)
_OF_METHODS = {"POST": "create", "DELETE": "delete", "PATCH": "update", "PUT": "update"}


@dataclass
class NewProject:
    """A project that its owner sets up. `roles` are by id, and `policies` by resource, as they were set.

    `calls` counts what the account asked of Compute Engine and Cloud Monitoring, as `GET /compute/v1/...`.
    """

    enabled: set[str] = field(default_factory=lambda: set(ON_AT_FIRST))
    accounts: set[str] = field(default_factory=set)
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)

    def granted_to(self, account: str, project: str) -> set[str]:
        """Permissions of the custom roles that the project's policy binds the account to."""
        member = f"serviceAccount:{account}"
        bindings = self.policies.get(project, {}).get("bindings", ())
        bound = [one["role"] for one in bindings if member in one.get("members", ())]
        prefix = f"projects/{project}/roles/"
        ids = [name.removeprefix(prefix) for name in bound if name.startswith(prefix)]
        return {name for one in ids for name in self.roles.get(one, {}).get("includedPermissions", ())}


class Rights:
    """`place` is a project, or the name of a bucket, of a service account, or of a table PROJECT.DATASET.TABLE."""

    def __init__(self) -> None:
        self._withheld: set[tuple[str, str]] = set()
        self._disabled: set[tuple[str, str]] = set()
        self._absent: set[str] = set()
        self.new: dict[str, NewProject] = {}
        self.account = ACCOUNT
        self.scopes: tuple[str, ...] = SCOPES

    def withhold(self, place: str, permission: str) -> None:
        self._withheld.add((place, permission))

    def disable(self, project: str, api: str) -> None:
        self._disabled.add((project, api))

    def remove(self, place: str) -> None:
        """There is no such bucket, account or table any more."""
        self._absent.add(place)

    def begin(self, project: str) -> None:
        """Makes it a new project."""
        self.new[project] = NewProject()

    def restore(self) -> None:
        self._withheld.clear()
        self._disabled.clear()
        self._absent.clear()
        self.new.clear()
        self.account, self.scopes = ACCOUNT, SCOPES

    def granted(self, place: str, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.may(place, name)]

    def may(self, place: str, permission: str) -> bool:
        new = self.new.get(place)
        is_given = new is None or permission in new.granted_to(self.account, place)
        return is_given and (place, permission) not in self._withheld

    def is_enabled(self, project: str, api: str) -> bool:
        new = self.new.get(project)
        return (new is None or api in new.enabled) and (project, api) not in self._disabled

    def is_there(self, place: str) -> bool:
        return place not in self._absent

    def lacks(self, project: str, method: str, path: str) -> tuple[str, ...]:
        """Names the permissions of which a call to a new project needs one, where it has none of them."""
        wanted = permissions_of(method, path) if project in self.new else ()
        return () if any(self.may(project, name) for name in wanted) else wanted

    def shown(self) -> Mapping[str, Any]:
        return {
            "account": self.account,
            "withheld": [{"place": place, "permission": name} for place, name in sorted(self._withheld)],
            "disabled": [{"project": project, "api": api} for project, api in sorted(self._disabled)],
            "new": {
                name: {"enabled": sorted(one.enabled), "granted": sorted(one.granted_to(self.account, name))}
                for name, one in self.new.items()
            },
        }


def permissions_of(method: str, path: str) -> tuple[str, ...]:
    """The permissions of which a call takes one, by Google's naming (docs.cloud.google.com/compute/docs/access/iam).

    Operations of a whole project take those of every scope, of which one stands for the rest. Empty: not known.
    """
    if path.endswith("/timeSeries"):
        return ("monitoring.timeSeries.list",)
    if _OF_GROUP.fullmatch(path):
        return ("compute.instanceGroupManagers.get" if method == "GET" else "compute.instanceGroupManagers.update",)
    if (match := _RESOURCE.fullmatch(path)) is None:
        return ("compute.projects.get",) if re.fullmatch(r"/compute/v1/projects/[^/:]+", path) else ()
    scope, kind, name, verb = match.groups()
    scopes: Sequence[str] = {"zones": ("zone",), "regions": ("region",), "global": ("global",)}.get(
        scope or "", ("zone", "region", "global")
    )
    kinds = [f"{one}Operations" for one in scopes] if kind == "operations" else [kind]
    if method == "GET":
        action = "get" if name else "list"
    elif kind == "advice" and name:
        action = name
    else:
        action = verb or _OF_METHODS.get(method, method)
    return tuple(f"compute.{one}.{action}" for one in kinds)
