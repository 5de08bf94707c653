"""Batches as gcloud and Google's own Python client send them, over HTTP."""

from __future__ import annotations

import email
import json
from collections.abc import Iterator
from email.message import Message
from typing import Any

import httplib2  # type: ignore[import-untyped]
import httpx2
import pytest
from googleapiclient.discovery import build_from_document
from googleapiclient.discovery_cache import get_static_doc
from tests.sandbox.gce.conformance.discovery import problems_of
from tests.sandbox.vms import MINUTE, PROJECT, ZONE, new_world, up

from costguard_sandbox.gce.routes.batch import read_batch
from costguard_sandbox.server import running
from costguard_sandbox.world import World

PLACE = f"/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances"
# One part as gcloud 528 sends it (`gcloud compute instances stop a b`): lines end in \n, and `binary` is all it says.
PART = """--===============3729888586196638657==
Content-Type: application/http
MIME-Version: 1.0
Content-Transfer-Encoding: binary
Content-ID: <24cf093f-b9dc-4ea1-97fa-1d012e5e6115+{number}>

{method} {path}?alt=json HTTP/1.1
Content-Type: application/json
MIME-Version: 1.0
content-length: {length}
user-agent: google-cloud-sdk
accept: application/json
accept-encoding: gzip, deflate
Host: 127.0.0.1:42581

{body}
"""
END = "--===============3729888586196638657==--\n"
KIND = 'multipart/mixed; boundary="===============3729888586196638657=="'


def batch(*calls: tuple[str, str, str]) -> str:
    parts = [
        PART.format(number=number, method=method, path=path, length=len(body), body=body)
        for number, (method, path, body) in enumerate(calls)
    ]
    return "".join(parts) + END


@pytest.fixture
def world() -> World:
    return new_world()


@pytest.fixture
def url(world: World) -> Iterator[str]:
    with running(world) as url:
        yield url


def send(url: str, text: str, kind: str = KIND, **headers: str) -> httpx2.Response:
    with httpx2.Client(base_url=url, trust_env=False) as client:
        return client.post("/batch/compute/v1", content=text, headers={"content-type": kind, **headers})


def answers(response: httpx2.Response) -> list[tuple[str, int, dict[str, Any]]]:
    """(content id, status, body) of each part, read as apitools reads them."""
    assert response.status_code == 200, response.text
    whole = email.message_from_string(f"content-type: {response.headers['content-type']}\r\n\r\n{response.text}")
    parts = whole.get_payload()
    assert isinstance(parts, list)
    return [_answer(part) for part in parts if isinstance(part, Message)]


def _answer(part: Message) -> tuple[str, int, dict[str, Any]]:
    assert part.get_content_type() == "application/http"
    status_line, _, rest = str(part.get_payload()).partition("\n")
    version, status, reason = status_line.strip().split(" ", 2)
    inner = email.message_from_string(rest)
    assert (version, bool(reason), inner.get_content_type()) == ("HTTP/1.1", True, "application/json")
    return str(part["Content-ID"]), int(status), json.loads(str(inner.get_payload()))


def test_gclouds_stop_of_two_vms_stops_both(world: World, url: str) -> None:
    """Each part is answered under its own id, in its order, with an operation that conforms."""
    vms = [up(world, name) for name in ("a", "b")]
    parts = answers(send(url, batch(*(("POST", f"{PLACE}/{name}/stop", "") for name in ("a", "b")))))
    assert [content_id for content_id, _, _ in parts] == [
        "<response-24cf093f-b9dc-4ea1-97fa-1d012e5e6115+0>",
        "<response-24cf093f-b9dc-4ea1-97fa-1d012e5e6115+1>",
    ]
    assert [(status, problems_of(body), body["targetId"]) for _, status, body in parts] == [
        (200, [], str(vm.id)) for vm in vms
    ]
    world.advance(3 * MINUTE)
    assert {str(vm.status) for vm in vms} == {"TERMINATED"}


def test_part_that_fails_leaves_the_others(world: World, url: str) -> None:
    """An error is in its own part, in Google's shape; the batch itself is a 200."""
    up(world, "a")
    nothing = f"/compute/v1/projects/{PROJECT}/zones/{ZONE}/nothing"
    calls = ("DELETE", f"{PLACE}/nobody", ""), ("GET", f"{PLACE}/a", ""), ("GET", nothing, "")
    parts = answers(send(url, batch(*calls)))
    assert [status for _, status, _ in parts] == [404, 200, 404]
    assert parts[0][2]["error"]["errors"][0]["reason"] == "notFound"
    assert parts[1][2]["name"] == "a"


def test_bodies_and_the_outer_headers_reach_each_call(world: World, url: str) -> None:
    """Headers of the batch hold for its calls (Google, "Batching requests"); a body is a call's own."""
    up(world, "a")
    wanted = {"labels": {"owner": "ana"}, "labelFingerprint": "42WmSpB8rSM="}
    sent = batch(("POST", f"{PLACE}/a/setLabels", json.dumps(wanted)))
    ((_, status, body),) = answers(send(url, sent, **{"x-sandbox-user": "ben@example.com"}))
    assert (status, body["user"]) == (200, "ben@example.com")
    assert world.instance(PROJECT, "a").given["labels"] == {"owner": "ana"}


def test_faults_apply_to_calls_in_a_batch(world: World, url: str) -> None:
    """A rate limit counts each call: n calls in a batch are n requests (Google, "Batching requests")."""
    up(world, "a")
    world.faults.add("rate_limit", limit=2)
    parts = answers(send(url, batch(*[("GET", f"{PLACE}/a", "")] * 4)))
    assert [status for _, status, _ in parts] == [200, 200, 403, 403]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("application/json", "{}"),
        (KIND, batch(("GET", "/sandbox/clock", ""))),
        (KIND, batch(("GET", "http://elsewhere.example.com/compute/v1/projects", ""))),
        (KIND, batch(("GET", f"{PLACE}/a", "")).replace("application/http", "text/plain")),
        (KIND, batch(*[("GET", f"{PLACE}/a", "")] * 1001)),
    ],
    ids=["no multipart", "another path", "another host", "no call", "too many"],
)
def test_an_invalid_batch_is_refused(url: str, kind: str, text: str) -> None:
    """A batch has at most 1000 calls, each of this API; nothing of an invalid one is done."""
    answer = send(url, text, kind)
    assert answer.status_code == 400
    assert answer.json()["error"]["errors"][0]["reason"] == "badRequest"


def test_batch_of_the_page_on_batching_is_read() -> None:
    """The example's form on Google's page: CRLF, ids with colons and @, no HTTP version, a call with a body."""
    part = "--batch_foobarbaz\r\nContent-Type: application/http\r\n"
    head = part + "Content-ID: <item{}:12930812@barnyard.example.com>\r\n\r\n"
    text = (
        head.format(1)
        + "GET /compute/v1/projects/p/zones/z/instances/a\r\n\r\n"
        + head.format(2)
        + "POST /compute/v1/projects/p/zones/z/instances?requestId=1\r\nContent-Type: application/json\r\n\r\n"
        + '{"name": "ä"}\r\n--batch_foobarbaz--\r\n'
    )
    first, second = read_batch("multipart/mixed; boundary=batch_foobarbaz", text.encode())
    assert (first.content_id, first.method, first.body) == ("item1:12930812@barnyard.example.com", "GET", b"")
    assert second.target.endswith("/instances?requestId=1")
    assert json.loads(second.body) == {"name": "ä"}


def test_googles_own_python_client_batches(world: World, url: str) -> None:
    """google-api-python-client, which Cloud Custodian uses: answers and errors come to the callback by request."""
    up(world, "a")
    described = json.loads(get_static_doc("compute", "v1"))
    described |= {"rootUrl": f"{url}/", "mtlsRootUrl": f"{url}/", "baseUrl": f"{url}/compute/v1/"}
    outcomes: dict[str, Any] = {}
    with _client(described) as compute:
        instances = compute.instances()
        both = compute.new_batch_http_request(lambda key, answer, error: outcomes.update({key: answer or error}))
        both.add(instances.get(project=PROJECT, zone=ZONE, instance="a"), request_id="there")
        both.add(instances.get(project=PROJECT, zone=ZONE, instance="nobody"), request_id="not there")
        both.execute()
    assert outcomes["there"]["name"] == "a"
    assert outcomes["not there"].status_code == 404


def _client(described: dict[str, Any]) -> Any:
    return build_from_document(described, http=httplib2.Http(proxy_info=None))
