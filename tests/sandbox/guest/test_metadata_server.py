"""The metadata server of a VM, as its guest asks it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import requests
from tests.sandbox.vms import MINUTE, PROJECT, SPOT, T4, ZONE, body, new_world

from costguard_sandbox.gce import changes
from costguard_sandbox.gce.catalogue.regions import default_service_account, project_number
from costguard_sandbox.gce.render import fingerprint
from costguard_sandbox.gce.vm import VM
from costguard_sandbox.server import running
from costguard_sandbox.world import World

_FLAVOR = {"Metadata-Flavor": "Google"}
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class Asked:
    def __init__(self, world: World, vm: VM, url: str, session: requests.Session, threads: ThreadPoolExecutor) -> None:
        self.world, self.vm, self.session, self._threads = world, vm, session, threads
        self.base = f"{url}/metadata/{vm.id}/computeMetadata/v1"

    def get(self, path: str, **query: Any) -> requests.Response:
        url = f"{self.base}/{path}"
        return self.session.get(url, params=query, headers=_FLAVOR, timeout=30, allow_redirects=False)

    def waiting(self, path: str, **query: Any) -> Future[requests.Response]:
        """A request that the server holds: it is under way when this returns."""
        listening = self.world.metadata_watches.waiting(self.vm.id)
        future = self._threads.submit(
            requests.get,
            f"{self.base}/{path}",
            params={"wait_for_change": "true", **query},
            headers=_FLAVOR,
            timeout=30,
        )
        tick = threading.Event()
        for _ in range(3000):
            if self.world.metadata_watches.waiting(self.vm.id) > listening:
                return future
            tick.wait(0.01)
        raise AssertionError("the request does not arrive")


@pytest.fixture
def asked() -> Iterator[Asked]:
    world = new_world()
    more: dict[str, Any] = {
        **T4,
        "scheduling": SPOT["scheduling"],
        "serviceAccounts": [{"email": "default", "scopes": [_SCOPE]}],
        "tags": {"items": ["gpu"]},
        "metadata": {
            "items": [{"key": "startup-script", "value": "#!/bin/sh\ntrue\n"}, {"key": "plain", "value": "x"}]
        },
    }
    world.insert(PROJECT, ZONE, body(**more))
    world.advance(MINUTE)
    with ThreadPoolExecutor() as threads, running(world) as url, requests.Session() as session:
        yield Asked(world, world.instance(PROJECT, "vm"), url, session, threads)


def test_values_are_plain_text(asked: Asked) -> None:
    """Each as Compute Engine writes it, with its ETag and the server's own header."""
    project = f"projects/{project_number(PROJECT)}"
    values = {
        "instance/id": str(asked.vm.id),
        "instance/name": "vm",
        "instance/hostname": f"vm.{ZONE}.c.{PROJECT}.internal",
        "instance/zone": f"{project}/zones/{ZONE}",
        "instance/machine-type": f"{project}/machineTypes/n1-standard-4",
        "instance/preempted": "FALSE",
        "instance/maintenance-event": "NONE",
        "instance/attributes/startup-script": "#!/bin/sh\ntrue\n",
        "instance/scheduling/automatic-restart": "FALSE",
        "instance/scheduling/on-host-maintenance": "TERMINATE",
        "instance/scheduling/preemptible": "TRUE",
        "instance/service-accounts/default/email": default_service_account(PROJECT),
        "instance/service-accounts/default/scopes": f"{_SCOPE}\n",
        "instance/network-interfaces/0/ip": asked.vm.network_ip,
        "instance/disks/0/mode": "READ_WRITE",
        "project/project-id": PROJECT,
        "project/numeric-project-id": str(project_number(PROJECT)),
    }
    for path, value in values.items():
        answer = asked.get(path)
        assert (path, answer.status_code, answer.text) == (path, 200, value)
        assert answer.headers["content-type"].startswith("application/text")
        assert (answer.headers["metadata-flavor"], len(answer.headers["etag"])) == ("Google", 16)


def test_directories_are_listed_and_shown_whole(asked: Asked) -> None:
    """Listed with a slash behind each directory; recursively as JSON, in which names are one word, or as text."""
    assert asked.get("").text == "instance/\nproject/\n"
    assert asked.get("instance/attributes/").text == "plain\nstartup-script\n"
    assert "attributes/\n" in asked.get("instance/").text
    assert asked.get("instance/disks/").text == "0/\n"
    moved = asked.get("instance/attributes")
    assert (moved.status_code, moved.headers["location"][-12:]) == (301, "/attributes/")
    whole = asked.get("instance/", recursive="true")
    assert whole.headers["content-type"] == "application/json"
    shown = whole.json()
    assert (shown["id"], shown["machineType"].rpartition("/")[2]) == (asked.vm.id, "n1-standard-4")
    assert shown["attributes"] == {"startup-script": "#!/bin/sh\ntrue\n", "plain": "x"}
    assert (shown["maintenanceEvent"], shown["tags"]) == ("NONE", ["gpu"])
    assert shown["serviceAccounts"]["default"] == {
        "aliases": ["default"],
        "email": default_service_account(PROJECT),
        "scopes": [_SCOPE],
    }
    assert asked.get("instance/scheduling/", recursive="true", alt="text").text == (
        "automatic-restart FALSE\non-host-maintenance TERMINATE\npreemptible TRUE\n"
    )
    assert asked.get("instance/name", alt="json").text == '"vm"'


def test_the_service_account_has_a_token(asked: Asked) -> None:
    """JSON with the seconds that it lasts; a VM without a service account has none."""
    answer = asked.get("instance/service-accounts/default/token")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["token_type"] == "Bearer"
    assert answer.json()["expires_in"] > 3000
    asked.world.insert(PROJECT, ZONE, body("bare"))
    bare = asked.world.instance(PROJECT, "bare")
    url = asked.base.replace(str(asked.vm.id), str(bare.id))
    token = f"{url}/instance/service-accounts/default/token"
    assert requests.get(token, headers=_FLAVOR, timeout=30).status_code == 404


@pytest.mark.parametrize("headers", [{}, {"Metadata-Flavor": "Amazon"}, {**_FLAVOR, "X-Forwarded-For": "10.0.0.1"}])
def test_who_does_not_say_what_it_asks_is_refused(asked: Asked, headers: dict[str, str]) -> None:
    """So that nobody is tricked into asking."""
    answer = requests.get(f"{asked.base}/instance/id", headers=headers, timeout=30)
    assert (answer.status_code, answer.headers["metadata-flavor"]) == (403, "Google")


def test_what_is_not_there_is_not_found(asked: Asked) -> None:
    """An attribute, a path, a VM; waiting does not help, and a wait without a number is refused."""
    assert asked.get("instance/attributes/nothing").status_code == 404
    assert asked.get("instance/name/").status_code == 404
    assert asked.get("nonsense", wait_for_change="true").status_code == 404
    assert asked.get("instance/name", wait_for_change="true", timeout_sec="soon").status_code == 400
    nobody = asked.base.replace(str(asked.vm.id), "1")
    assert requests.get(f"{nobody}/instance/id", headers=_FLAVOR, timeout=30).status_code == 404


def test_a_change_answers_whoever_waits_for_it(asked: Asked) -> None:
    """The preemption is told with another ETag; with that one, the next request waits again."""
    etag = asked.get("instance/preempted").headers["etag"]
    held = asked.waiting("instance/preempted", last_etag=etag, timeout_sec="60")
    unsaid = asked.waiting("instance/preempted")
    asked.world.preempt(PROJECT, "vm")
    answer = held.result(30)
    assert (answer.text, unsaid.result(30).text) == ("TRUE", "TRUE")
    assert answer.headers["etag"] != etag
    late = asked.get("instance/preempted", wait_for_change="true", last_etag=etag, timeout_sec="60")
    assert late.text == "TRUE"


def test_a_wait_that_is_over_answers_what_there_is(asked: Asked) -> None:
    """After timeout_sec; a change of something else does not end it."""
    etag = asked.get("instance/preempted").headers["etag"]
    held = asked.waiting("instance/preempted", last_etag=etag, timeout_sec="1")
    seen = fingerprint(asked.vm.given["metadata"]["items"])
    asked.world.change(
        "setMetadata",
        PROJECT,
        ZONE,
        "vm",
        changes.metadata({"fingerprint": seen, "items": [{"key": "new", "value": "1"}]}),
    )
    answer = held.result(30)
    assert (answer.text, answer.headers["etag"]) == ("FALSE", etag)
    assert asked.get("instance/attributes/", recursive="true").json() == {"new": "1"}


def test_a_directory_can_be_waited_for(asked: Asked) -> None:
    """Any value in it counts."""
    whole = asked.get("instance/", recursive="true")
    held = asked.waiting("instance/", recursive="true", last_etag=whole.headers["etag"])
    asked.world.trigger("host-maintenance", PROJECT, "vm")
    assert held.result(30).json()["maintenanceEvent"] == "TERMINATE_ON_HOST_MAINTENANCE"


def test_who_waits_hears_of_the_end_of_the_vm(asked: Asked) -> None:
    """404, as for any VM that is not there."""
    held = asked.waiting("instance/preempted")
    asked.world.delete(PROJECT, "vm")
    asked.world.advance(5 * MINUTE)
    assert held.result(30).status_code == 404


def test_who_waits_does_not_hold_up_the_servers_end() -> None:
    """The present value is their answer."""
    world = new_world()
    world.insert(PROJECT, ZONE, body())
    with ThreadPoolExecutor() as threads:
        with running(world) as url, requests.Session() as session:
            asked = Asked(world, world.instance(PROJECT, "vm"), url, session, threads)
            held = asked.waiting("instance/preempted")
        assert held.result(30).text == "FALSE"


def test_a_notice_is_told_before_anything_else_happens(asked: Asked) -> None:
    """Metadata say TRUE while the VM is RUNNING; the preemption follows when the notice is over, unless it is gone."""
    assert asked.world.trigger_after_notice("preempt", PROJECT, "vm", notice=timedelta(seconds=120)) is None
    assert (asked.get("instance/preempted").text, asked.vm.status) == ("TRUE", "RUNNING")
    asked.world.advance(timedelta(seconds=119))
    assert asked.vm.status == "RUNNING"
    asked.world.advance(timedelta(seconds=1))
    assert asked.vm.status == "STOPPING"
    assert [one.kind for one in asked.world.operations.of(PROJECT)] == ["insert", "compute.instances.preempted"]


def test_a_vm_that_is_stopped_during_its_notice_is_not_preempted(asked: Asked) -> None:
    """The notice was for a run that has ended."""
    asked.world.trigger_after_notice("preempt", PROJECT, "vm", notice=timedelta(minutes=10))
    asked.world.stop(PROJECT, "vm")
    asked.world.advance(5 * MINUTE)
    asked.world.start(PROJECT, "vm")
    asked.world.advance(10 * MINUTE)
    assert asked.vm.status == "RUNNING"
    assert asked.get("instance/preempted").text == "FALSE"


def test_a_vm_can_have_a_notice_of_its_own() -> None:
    """preemptionNoticeDuration, where the event says nothing of one; an event that says 0 means it."""
    world = new_world()
    scheduling = {**SPOT["scheduling"], "preemptionNoticeDuration": {"seconds": "120"}}
    for name in ("vm", "other"):
        world.insert(PROJECT, ZONE, body(name, scheduling=scheduling))
    world.advance(MINUTE)
    assert world.trigger_after_notice("preempt", PROJECT, "vm") is None
    assert world.trigger_after_notice("preempt", PROJECT, "other", notice=timedelta(0)) is not None


def test_a_migration_is_told_while_it_is_ahead() -> None:
    """MIGRATE_ON_HOST_MAINTENANCE until it has happened, NONE afterwards; the VM runs on."""
    world = new_world()
    world.insert(PROJECT, ZONE, body())
    world.advance(MINUTE)
    vm = world.instance(PROJECT, "vm")
    world.trigger_after_notice("migrate", PROJECT, "vm", notice=MINUTE)
    seen = vm.maintenance_event
    world.advance(MINUTE)
    assert (seen, vm.maintenance_event, vm.status) == ("MIGRATE_ON_HOST_MAINTENANCE", "NONE", "RUNNING")
