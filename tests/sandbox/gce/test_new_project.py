"""A new project, in which nothing is granted: what its owner does, and what an account may then do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.in_one_thread import OneThread, in_one_thread

from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.rights import permissions_of
from costguard_sandbox.server import create_app
from costguard_sandbox.world import World

PROJECT = "lab"
ACCOUNT = f"costguard@{PROJECT}.iam.gserviceaccount.com"
ROLE = f"projects/{PROJECT}/roles/costguard"


@dataclass
class Owner:
    client: OneThread

    def asks(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        answer = self.client.request(method, path, json=body) if body is not None else self.client.request(method, path)
        return answer.status_code, answer.json()

    def binds(self, role: str, account: str) -> tuple[int, Any]:
        policy = self.asks("POST", f"/v1/projects/{PROJECT}:getIamPolicy", {})[1]
        policy["bindings"] = [{"role": role, "members": [f"serviceAccount:{account}"]}]
        return self.asks("POST", f"/v1/projects/{PROJECT}:setIamPolicy", {"policy": policy})

    def makes(self, *permissions: str) -> None:
        self.asks("POST", f"/v1/projects/{PROJECT}/serviceAccounts", {"accountId": "costguard"})
        role = {"includedPermissions": list(permissions)}
        self.asks("POST", f"/v1/projects/{PROJECT}/roles", {"roleId": "costguard", "role": role})
        self.asks("POST", "/sandbox/rights", {"account": ACCOUNT})


@pytest.fixture
def owner() -> Iterator[Owner]:
    world = World(ManualClock(datetime(2026, 11, 20, 9, tzinfo=UTC)), projects=[PROJECT])
    world.rights.begin(PROJECT)
    with in_one_thread(create_app(world)) as client:
        yield Owner(client)


def test_an_account_may_do_what_its_role_holds(owner: Owner) -> None:
    """Nothing before the role is bound, and nothing that it does not hold."""
    owner.makes("compute.instances.list", "compute.zoneOperations.list")
    instances = f"/compute/v1/projects/{PROJECT}/aggregated/instances"
    code, said = owner.asks("GET", instances)
    assert (code, said["error"]["message"]) == (
        403,
        f"Required 'compute.instances.list' permission for 'projects/{PROJECT}'",
    )
    assert owner.binds(ROLE, ACCOUNT)[0] == 200
    assert owner.asks("GET", instances)[0] == 200
    assert owner.asks("GET", f"/compute/v1/projects/{PROJECT}/aggregated/operations")[0] == 200
    assert owner.asks("GET", f"/compute/v1/projects/{PROJECT}/aggregated/disks")[0] == 403
    assert owner.asks("POST", f"/compute/v1/projects/{PROJECT}/zones/us-central1-a/instances/a/stop")[0] == 403


def test_what_may_be_done_can_be_asked_once_the_api_is_on(owner: Owner) -> None:
    """Resource Manager is off in a new project, as it is at Google."""
    owner.makes("compute.instances.list")
    owner.binds(ROLE, ACCOUNT)
    question = {"permissions": ["compute.instances.list", "compute.instances.stop"]}
    code, said = owner.asks("POST", f"/v3/projects/{PROJECT}:testIamPermissions", question)
    assert (code, said["error"]["details"][0]["reason"]) == (403, "SERVICE_DISABLED")
    apis = {"serviceIds": ["cloudresourcemanager.googleapis.com"]}
    assert owner.asks("POST", f"/v1/projects/{PROJECT}/services:batchEnable", apis)[1]["done"] is True
    code, said = owner.asks("POST", f"/v3/projects/{PROJECT}:testIamPermissions", question)
    assert (code, said) == (200, {"permissions": ["compute.instances.list"]})


def test_a_policy_names_what_is_there(owner: Owner) -> None:
    """A role or an account that nobody made is refused, and so is a policy that was changed meanwhile."""
    owner.makes("compute.instances.list")
    assert owner.binds(f"{ROLE}Typo", ACCOUNT)[0] == 400
    assert owner.binds(ROLE, f"typo@{PROJECT}.iam.gserviceaccount.com")[0] == 400
    stale = {"policy": {"etag": "of-yesterday", "bindings": []}}
    assert owner.asks("POST", f"/v1/projects/{PROJECT}:setIamPolicy", stale)[0] == 409
    assert owner.binds(ROLE, ACCOUNT)[0] == 200


def test_what_is_there_is_not_made_again(owner: Owner) -> None:
    """Google refuses a second one with that name as well, and a newcomer who starts over reads so."""
    owner.makes()
    assert owner.asks("POST", f"/v1/projects/{PROJECT}/serviceAccounts", {"accountId": "costguard"})[0] == 409
    assert owner.asks("POST", f"/v1/projects/{PROJECT}/roles", {"roleId": "costguard", "role": {}})[0] == 409
    assert owner.asks("GET", f"/v1/projects/{PROJECT}/roles/another")[0] == 404


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("GET aggregated/instances", ("compute.instances.list",)),
        ("GET zones/us-central1-a/instances/a", ("compute.instances.get",)),
        ("POST zones/us-central1-a/instances", ("compute.instances.create",)),
        ("POST zones/us-central1-a/instances/a/stop", ("compute.instances.stop",)),
        ("DELETE zones/us-central1-a/disks/a", ("compute.disks.delete",)),
        ("GET zones/us-central1-a/operations/a", ("compute.zoneOperations.get",)),
        ("GET global/images", ("compute.images.list",)),
        ("GET regions/us-central1", ("compute.regions.get",)),
        ("POST regions/us-central1/advice/capacityHistory", ("compute.advice.capacityHistory",)),
    ],
)
def test_permissions_follow_googles_names(call: str, wanted: tuple[str, ...]) -> None:
    """The section "IAM Permissions" of each method's page names them."""
    method, path = call.split()
    assert permissions_of(method, f"/compute/v1/projects/{PROJECT}/{path}") == wanted
