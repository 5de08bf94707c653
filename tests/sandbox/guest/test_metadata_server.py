"""The metadata server of a VM, as its guest asks it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import requests
from google.auth import jwt
from google.auth.exceptions import GoogleAuthError
from joserfc.jwk import RSAKey
from tests.sandbox.vms import MINUTE, PROJECT, SPOT, T4, ZONE, body, new_world

from costguard.clock import SystemClock
from costguard_sandbox.gce import changes
from costguard_sandbox.gce.catalogue.regions import default_service_account, project_number
from costguard_sandbox.gce.render import fingerprint
from costguard_sandbox.gce.vm import VM
from costguard_sandbox.server import running
from costguard_sandbox.world import World

_FLAVOR = {"Metadata-Flavor": "Google"}
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class MetadataClient:
    def __init__(self, world: World, vm: VM, url: str, session: requests.Session, threads: ThreadPoolExecutor) -> None:
        self.world, self.vm, self.session, self._threads = world, vm, session, threads
        self.url = url
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
def server() -> Iterator[MetadataClient]:
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
        yield MetadataClient(world, world.instance(PROJECT, "vm"), url, session, threads)


def test_values_are_plain_text(server: MetadataClient) -> None:
    """Each as Compute Engine writes it, with its ETag and the server's own header."""
    project = f"projects/{project_number(PROJECT)}"
    values = {
        "instance/id": str(server.vm.id),
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
        "instance/network-interfaces/0/ip": server.vm.network_ip,
        "instance/disks/0/mode": "READ_WRITE",
        "project/project-id": PROJECT,
        "project/numeric-project-id": str(project_number(PROJECT)),
    }
    for path, value in values.items():
        answer = server.get(path)
        assert (path, answer.status_code, answer.text) == (path, 200, value)
        assert answer.headers["content-type"].startswith("application/text")
        assert (answer.headers["metadata-flavor"], len(answer.headers["etag"])) == ("Google", 16)


def test_directories_are_listed_and_shown_whole(server: MetadataClient) -> None:
    """Listed with a slash behind each directory; recursively as JSON, in which names are one word, or as text."""
    assert server.get("").text == "instance/\nproject/\n"
    assert server.get("instance/attributes/").text == "plain\nstartup-script\n"
    assert "attributes/\n" in server.get("instance/").text
    assert server.get("instance/disks/").text == "0/\n"
    moved = server.get("instance/attributes")
    assert (moved.status_code, moved.headers["location"][-12:]) == (301, "/attributes/")
    whole = server.get("instance/", recursive="true")
    assert whole.headers["content-type"] == "application/json"
    shown = whole.json()
    assert (shown["id"], shown["machineType"].rpartition("/")[2]) == (server.vm.id, "n1-standard-4")
    assert shown["attributes"] == {"startup-script": "#!/bin/sh\ntrue\n", "plain": "x"}
    assert (shown["maintenanceEvent"], shown["tags"]) == ("NONE", ["gpu"])
    assert shown["serviceAccounts"]["default"] == {
        "aliases": ["default"],
        "email": default_service_account(PROJECT),
        "scopes": [_SCOPE],
    }
    assert server.get("instance/scheduling/", recursive="true", alt="text").text == (
        "automatic-restart FALSE\non-host-maintenance TERMINATE\npreemptible TRUE\n"
    )
    assert server.get("instance/name", alt="json").text == '"vm"'


def test_the_service_account_has_a_token(server: MetadataClient) -> None:
    """JSON with the seconds that it lasts; a VM without a service account has none."""
    answer = server.get("instance/service-accounts/default/token")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["token_type"] == "Bearer"
    assert answer.json()["expires_in"] > 3000
    server.world.insert(PROJECT, ZONE, body("bare"))
    bare = server.world.instance(PROJECT, "bare")
    url = server.base.replace(str(server.vm.id), str(bare.id))
    token = f"{url}/instance/service-accounts/default/token"
    assert requests.get(token, headers=_FLAVOR, timeout=30).status_code == 404


@pytest.mark.parametrize("headers", [{}, {"Metadata-Flavor": "Amazon"}, {**_FLAVOR, "X-Forwarded-For": "10.0.0.1"}])
def test_requests_without_the_header_are_refused(server: MetadataClient, headers: dict[str, str]) -> None:
    """A forged request (SSRF) gets nothing."""
    answer = requests.get(f"{server.base}/instance/id", headers=headers, timeout=30)
    assert (answer.status_code, answer.headers["metadata-flavor"]) == (403, "Google")


def test_missing_resources_are_not_found(server: MetadataClient) -> None:
    """An attribute, a path, a VM; waiting does not help, and a wait without a number is refused."""
    assert server.get("instance/attributes/nothing").status_code == 404
    assert server.get("instance/name/").status_code == 404
    assert server.get("nonsense", wait_for_change="true").status_code == 404
    assert server.get("instance/name", wait_for_change="true", timeout_sec="soon").status_code == 400
    nobody = server.base.replace(str(server.vm.id), "1")
    assert requests.get(f"{nobody}/instance/id", headers=_FLAVOR, timeout=30).status_code == 404


def test_a_metadata_change_answers_the_waiting_request(server: MetadataClient) -> None:
    """The preemption comes with another ETag; with that one, the next request waits again."""
    etag = server.get("instance/preempted").headers["etag"]
    held = server.waiting("instance/preempted", last_etag=etag, timeout_sec="60")
    unsaid = server.waiting("instance/preempted")
    server.world.preempt(PROJECT, "vm")
    answer = held.result(30)
    assert (answer.text, unsaid.result(30).text) == ("TRUE", "TRUE")
    assert answer.headers["etag"] != etag
    late = server.get("instance/preempted", wait_for_change="true", last_etag=etag, timeout_sec="60")
    assert late.text == "TRUE"


def test_a_wait_that_times_out_answers_the_present_value(server: MetadataClient) -> None:
    """The answer comes after timeout_sec; a change of something else does not end it."""
    etag = server.get("instance/preempted").headers["etag"]
    held = server.waiting("instance/preempted", last_etag=etag, timeout_sec="1")
    seen = fingerprint(server.vm.given["metadata"]["items"])
    server.world.change(
        "setMetadata",
        PROJECT,
        ZONE,
        "vm",
        changes.metadata({"fingerprint": seen, "items": [{"key": "new", "value": "1"}]}),
    )
    answer = held.result(30)
    assert (answer.text, answer.headers["etag"]) == ("FALSE", etag)
    assert server.get("instance/attributes/", recursive="true").json() == {"new": "1"}


def test_a_request_can_wait_for_a_directory(server: MetadataClient) -> None:
    """Any value in it counts."""
    whole = server.get("instance/", recursive="true")
    held = server.waiting("instance/", recursive="true", last_etag=whole.headers["etag"])
    server.world.trigger("host-maintenance", PROJECT, "vm")
    assert held.result(30).json()["maintenanceEvent"] == "TERMINATE_ON_HOST_MAINTENANCE"


def test_a_waiting_request_gets_the_end_of_the_vm(server: MetadataClient) -> None:
    """404, as for any VM that is not there."""
    held = server.waiting("instance/preempted")
    server.world.delete(PROJECT, "vm")
    server.world.advance(5 * MINUTE)
    assert held.result(30).status_code == 404


def test_a_waiting_request_does_not_delay_the_servers_end() -> None:
    """The present value is their answer."""
    world = new_world()
    world.insert(PROJECT, ZONE, body())
    with ThreadPoolExecutor() as threads:
        with running(world) as url, requests.Session() as session:
            server = MetadataClient(world, world.instance(PROJECT, "vm"), url, session, threads)
            held = server.waiting("instance/preempted")
        assert held.result(30).text == "FALSE"


def test_a_notice_appears_in_metadata_first(server: MetadataClient) -> None:
    """Metadata say TRUE while the VM is RUNNING; the preemption follows when the notice is over, unless it is gone."""
    assert server.world.trigger_after_notice("preempt", PROJECT, "vm", notice=timedelta(seconds=120)) is None
    assert (server.get("instance/preempted").text, server.vm.status) == ("TRUE", "RUNNING")
    server.world.advance(timedelta(seconds=119))
    assert server.vm.status == "RUNNING"
    server.world.advance(timedelta(seconds=1))
    assert server.vm.status == "STOPPING"
    assert [one.kind for one in server.world.operations.of(PROJECT)] == ["insert", "compute.instances.preempted"]


def test_a_vm_that_is_stopped_during_its_notice_is_not_preempted(server: MetadataClient) -> None:
    """The notice was for a run that has ended."""
    server.world.trigger_after_notice("preempt", PROJECT, "vm", notice=timedelta(minutes=10))
    server.world.stop(PROJECT, "vm")
    server.world.advance(5 * MINUTE)
    server.world.start(PROJECT, "vm")
    server.world.advance(10 * MINUTE)
    assert server.vm.status == "RUNNING"
    assert server.get("instance/preempted").text == "FALSE"


def test_a_vm_can_set_its_own_preemption_notice() -> None:
    """preemptionNoticeDuration, where the event says nothing of one; an event that says 0 means it."""
    world = new_world()
    scheduling = {**SPOT["scheduling"], "preemptionNoticeDuration": {"seconds": "120"}}
    for name in ("vm", "other"):
        world.insert(PROJECT, ZONE, body(name, scheduling=scheduling))
    world.advance(MINUTE)
    assert world.trigger_after_notice("preempt", PROJECT, "vm") is None
    assert world.trigger_after_notice("preempt", PROJECT, "other", notice=timedelta(0)) is not None


def test_soft_off_comes_after_the_notice(server: MetadataClient) -> None:
    """The metadata say TRUE at once; the VM runs for 120 s more, and then has the usual 30 s.

    Google's "Spot VMs", "Preemption process".
    """
    scheduling = {**SPOT["scheduling"], "preemptionNoticeDuration": {"seconds": "120"}}
    server.world.insert(PROJECT, ZONE, body("noticed", scheduling=scheduling))
    server.world.advance(MINUTE)
    vm = server.world.instance(PROJECT, "noticed")
    server.world.trigger_after_notice("preempt", PROJECT, "noticed")
    assert vm.is_preempted
    server.world.advance(timedelta(seconds=119))
    assert vm.status == "RUNNING"
    server.world.advance(timedelta(seconds=2))
    assert vm.status == "STOPPING"


def test_a_migration_is_announced_in_metadata() -> None:
    """MIGRATE_ON_HOST_MAINTENANCE until it has happened, NONE afterwards; the VM runs on."""
    world = new_world()
    world.insert(PROJECT, ZONE, body())
    world.advance(MINUTE)
    vm = world.instance(PROJECT, "vm")
    world.trigger_after_notice("migrate", PROJECT, "vm", notice=MINUTE)
    seen = vm.maintenance_event
    world.advance(MINUTE)
    assert (seen, vm.maintenance_event, vm.status) == ("MIGRATE_ON_HOST_MAINTENANCE", "NONE", "RUNNING")


def test_an_identity_token_names_the_account_and_the_audience(server: MetadataClient) -> None:
    """Google's own library reads it; with format=full it names the VM. Without an audience it is refused."""
    path = "instance/service-accounts/default/identity"
    claims = _claims(server.get(path, audience="sts.amazonaws.com", format="full"))
    assert claims["aud"] == "sts.amazonaws.com"
    assert claims["email"] == default_service_account(PROJECT)
    assert claims["exp"] - claims["iat"] == 3600
    assert claims["google"]["compute_engine"]["instance_id"] == str(server.vm.id)
    assert "google" not in _claims(server.get(path, audience="me"))
    assert server.get(path).status_code == 400
    assert server.get("instance/service-accounts/none@example.com/identity", audience="me").status_code == 404


def test_an_identity_document_is_verified_by_the_keys_that_the_cloud_serves(server: MetadataClient) -> None:
    """Google's own library takes it, as its page on the identity of VMs tells, and no changed one."""
    answer = server.get("instance/service-accounts/default/identity", audience="me", format="full")
    (key,) = requests.get(f"{server.url}/oauth2/v3/certs", timeout=30).json()["keys"]
    certificates = {key["kid"]: RSAKey.import_key(key).as_pem(private=False)}
    seconds = int((server.world.now - SystemClock().now()).total_seconds())
    skew = {"clock_skew_in_seconds": abs(seconds) + 60}
    claims = jwt.decode(answer.text, certs=certificates, audience="me", **skew)  # type: ignore[no-untyped-call]
    assert claims["google"]["compute_engine"]["instance_name"] == server.vm.name
    head, body, signature = answer.text.split(".")
    with pytest.raises(GoogleAuthError):
        jwt.decode(f"{head}.{body[:-4]}AAAA.{signature}", certs=certificates, audience="me", **skew)  # type: ignore[no-untyped-call]


def _claims(answer: requests.Response) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(answer.text, verify=False)  # type: ignore[no-untyped-call] # google-auth's
    return claims
