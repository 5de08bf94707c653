"""Faults are seen through HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import requests
from tests.sandbox.vms import MINUTE, PROJECT, ZONE, body, new_world, up
from tests.waiting import until

from costguard_sandbox.faults import BadFault
from costguard_sandbox.gce.faults import CloudFaults
from costguard_sandbox.gce.operations import Operation
from costguard_sandbox.gce.vm import Status
from costguard_sandbox.server import running
from costguard_sandbox.world import World

_ALL = f"/compute/v1/projects/{PROJECT}/aggregated/instances"
_ZONAL = f"/compute/v1/projects/{PROJECT}/zones/{ZONE}"


def _deletes(world: World) -> list[Operation]:
    return [one for one in world.operations.of(PROJECT) if one.kind == "delete"]


class Served:
    def __init__(self, world: World, url: str, session: requests.Session) -> None:
        self.world, self.url, self.session = world, url, session

    def get(self, path: str, **query: Any) -> requests.Response:
        return self.session.get(self.url + path, params=query, timeout=30)

    def post(self, path: str, values: dict[str, Any]) -> requests.Response:
        return self.session.post(self.url + path, json=values, timeout=30)

    def error(self, path: str = _ALL) -> tuple[int, str, str]:
        """Status, reason and message of the refusal that this path meets."""
        answer = self.get(path)
        (error,) = answer.json()["error"]["errors"]
        assert answer.json()["error"]["code"] == answer.status_code
        return answer.status_code, error["reason"], error["message"]


@pytest.fixture
def served() -> Iterator[Served]:
    world = new_world()
    up(world)
    with running(world) as url, requests.Session() as session:
        yield Served(world, url, session)


def test_an_unreachable_zone_is_named_and_its_vms_are_missing(served: Served) -> None:
    """The list still answers 200; the zone's own list and reads answer 503; afterwards all is as before."""
    up(served.world, "elsewhere", zone="us-east1-c")
    fault = served.world.faults.add("unreachable_zone", zone=ZONE)
    listed = served.get(_ALL).json()
    assert listed["unreachables"] == [f"zones/{ZONE}"]
    assert [vm["name"] for scope in listed["items"].values() for vm in scope.get("instances", ())] == ["elsewhere"]
    assert served.error(f"{_ZONAL}/instances")[0] == 503
    assert served.error(f"{_ZONAL}/instances/vm")[0] == 503
    served.world.faults.remove(fault.id)
    assert "unreachables" not in served.get(_ALL).json()
    assert served.get(f"{_ZONAL}/instances/vm").status_code == 200


def test_reads_are_limited_per_minute_and_project(served: Served) -> None:
    """The answer is 403, not 429; the bucket refills on the minute; other projects and writes go on."""
    served.world.faults.add("rate_limit", limit=3, project=PROJECT)
    served.world.advance_to(served.world.now.replace(second=40))
    assert [served.get(_ALL).status_code for _ in range(5)] == [200, 200, 200, 403, 403]
    code, reason, message = served.error()
    assert (code, reason) == (403, "rateLimitExceeded")
    assert "limit 'Read requests per minute per region'" in message
    assert served.get(_ALL.replace(PROJECT, "acme-research")).status_code == 200
    assert served.post(f"{_ZONAL}/instances/vm/reset", {}).status_code == 200
    served.world.advance(timedelta(seconds=20))
    assert served.get(_ALL).status_code == 200


def test_writes_can_be_limited_in_place_of_reads(served: Served) -> None:
    """The same 403; a wait for an operation and all reads go on, and nothing that was refused has happened."""
    served.world.faults.add("rate_limit", limit=1, writes=True)
    inserts = [served.post(f"{_ZONAL}/instances", body(f"new-{number}")) for number in range(3)]
    assert [answer.status_code for answer in inserts] == [200, 403, 403]
    assert served.post(f"{_ZONAL}/operations/{inserts[0].json()['name']}/wait", {}).status_code == 200
    (error,) = inserts[1].json()["error"]["errors"]
    assert (error["reason"], error["domain"]) == ("rateLimitExceeded", "usageLimits")
    assert [vm.name for vm in served.world.instances(PROJECT)] == ["new-0", "vm"]
    assert {served.get(_ALL).status_code for _ in range(5)} == {200}
    served.world.advance(MINUTE)
    assert served.post(f"{_ZONAL}/instances", body("later")).status_code == 200


_UUID = "5f5c9a1e-0b5e-4d0e-9a55-2f6a2b8f1c11"


@pytest.mark.parametrize(("when", "took_effect"), [("after", True), ("before", False)])
def test_an_answer_can_be_lost_after_or_before_the_effect(served: Served, when: str, took_effect: bool) -> None:
    """The connection breaks; asked again under the same requestId there is one VM, and one operation."""
    served.world.faults.add("lost_answer", when=when, method="POST", path="/instances$", count=1)
    url = f"{served.url}{_ZONAL}/instances?requestId={_UUID}"
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.post(url, json=body("new"), timeout=30)
    assert ("new" in {vm.name for vm in served.world.instances(PROJECT)}) is took_effect
    again = requests.post(url, json=body("new"), timeout=30)
    assert (again.status_code, again.json()["clientOperationId"]) == (200, _UUID)
    inserts = [one for one in served.world.operations.of(PROJECT) if one.target_link.endswith("/new")]
    assert len(inserts) == 1


def test_a_lost_answer_can_be_an_error_or_silence(served: Served) -> None:
    """A delete that took effect, and a client that hears 503, or nothing at all until its patience ends."""
    up(served.world, "other")
    served.world.faults.add("lost_answer", how="error", method="DELETE", count=1)
    answer = served.session.delete(f"{served.url}{_ZONAL}/instances/vm", timeout=30)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, 503)
    served.world.faults.add("lost_answer", how="silence", method="DELETE", count=1)
    with pytest.raises(requests.exceptions.ReadTimeout):
        requests.delete(f"{served.url}{_ZONAL}/instances/other", timeout=(30, 1))
    until(lambda: any(one.target_link.endswith("/other") for one in _deletes(served.world)))
    served.world.advance(5 * MINUTE)
    assert served.world.instances(PROJECT) == []


def test_half_of_an_answer(served: Served) -> None:
    """The headers promise the whole; the connection breaks within the body."""
    served.world.faults.add("lost_answer", how="half", count=1)
    with pytest.raises((requests.exceptions.ChunkedEncodingError, requests.exceptions.ConnectionError)):
        served.get(_ALL)
    assert served.get(_ALL).status_code == 200


def test_a_request_can_arrive_later(served: Served) -> None:
    """The sender has given it up by then; asked again under the same requestId, there is one operation."""
    served.world.faults.add("lost_answer", when="later", seconds=45, method="POST", count=1)
    url = f"{served.url}{_ZONAL}/instances?requestId={_UUID}"
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.post(url, json=body("new"), timeout=30)
    assert [vm.name for vm in served.world.instances(PROJECT)] == ["vm"]
    served.world.advance(MINUTE)
    assert [vm.name for vm in served.world.instances(PROJECT)] == ["new", "vm"]
    assert requests.post(url, json=body("new"), timeout=30).status_code == 200
    assert sum(one.target_link.endswith("/new") for one in served.world.operations.of(PROJECT)) == 1


def test_a_request_can_arrive_twice(served: Served) -> None:
    """The request is one operation with a requestId; without one, the second is refused."""
    served.world.faults.add("repeated", method="POST", path="/instances$")
    assert served.post(f"{_ZONAL}/instances?requestId={_UUID}", body("one")).status_code == 200
    assert served.post(f"{_ZONAL}/instances", body("two")).status_code == 409
    assert [vm.name for vm in served.world.instances(PROJECT)] == ["one", "two", "vm"]


def test_a_fault_can_meet_some_requests(served: Served) -> None:
    """The chance is decided by the world's seed."""
    served.world.faults.add("server_error", chance=0.5)
    codes = [served.get(_ALL).status_code for _ in range(40)]
    assert 10 < codes.count(503) < 30
    assert codes.count(200) == 40 - codes.count(503)


def test_a_preemption_while_a_vm_is_made_fails_its_insert(served: Served) -> None:
    """The failure is an error of the operation; the VM is there, and was never up."""
    made = served.post(f"{_ZONAL}/instances", body("new", scheduling={"provisioningModel": "SPOT"})).json()
    served.world.advance(timedelta(seconds=2))
    assert served.post("/sandbox/preempt", {"zone": ZONE}).json()["preempted"][0]["name"] == "new"
    served.world.advance(MINUTE)
    done = served.get(f"{_ZONAL}/operations/{made['name']}").json()
    assert (done["status"], done["error"]["errors"][0]["code"]) == ("DONE", "UNSUPPORTED_OPERATION")
    assert served.get(f"{_ZONAL}/instances/new").json()["status"] == "TERMINATED"


@pytest.mark.parametrize(
    ("kind", "values", "code", "reason"),
    [
        ("unauthenticated", {}, 401, "authError"),
        ("forbidden", {"project": PROJECT}, 403, "forbidden"),
        ("project_gone", {"project": PROJECT}, 404, "notFound"),
        ("server_error", {}, 503, "backendError"),
        ("server_error", {"code": 500}, 500, "internalError"),
    ],
)
def test_a_refusal_lasts_until_it_is_cleared(
    served: Served, kind: str, values: dict[str, Any], code: int, reason: str
) -> None:
    """Each in Google's own shape; the sandbox's routes are never touched."""
    made = served.post("/sandbox/faults", {"kind": kind, **values})
    assert made.status_code == 200
    assert served.error()[:2] == (code, reason)
    assert served.get("/sandbox/meter").status_code == 200
    assert served.get("/sandbox/faults").json()["faults"] == [made.json()]
    assert served.session.delete(f"{served.url}/sandbox/faults/{made.json()['id']}", timeout=30).status_code == 200
    assert served.get(_ALL).status_code == 200


def test_the_next_few_failures_can_be_counted_and_aimed(served: Served) -> None:
    """`count` runs out by itself; `method` and `path` say what is met."""
    served.world.faults.add("server_error", code=502, count=2, method="GET", path="/aggregated/")
    assert served.get(f"{_ZONAL}/instances").status_code == 200
    assert [served.get(_ALL).status_code for _ in range(3)] == [502, 502, 200]
    assert served.world.faults.listed() == []


def test_garbage_is_a_200_that_is_not_json(served: Served) -> None:
    """A listing that breaks off in the middle."""
    served.world.faults.add("garbage", count=1)
    answer = served.get(_ALL)
    assert answer.status_code == 200
    with pytest.raises(requests.exceptions.JSONDecodeError):
        answer.json()


@pytest.mark.parametrize(
    ("what", "path", "content"),
    [
        ("empty", _ALL, {}),
        ("other", f"{_ZONAL}/instances/vm", {"kind": "compute#instance", "name": "another"}),
        ("other", f"{_ZONAL}/instances/vm/stop", {"kind": "compute#operation", "operationType": "insert"}),
    ],
)
def test_a_200_that_tells_nothing_of_what_was_asked(
    served: Served, what: str, path: str, content: dict[str, str]
) -> None:
    """`{}`, or the answer to another request; nothing is done unless `when` says so."""
    up(served.world, "another")
    served.world.faults.add("garbage", what=what)
    answer = served.post(path, {}) if path.endswith("/stop") else served.get(path)
    assert answer.status_code == 200
    assert {key: answer.json().get(key) for key in content} == content
    served.world.advance(5 * MINUTE)
    assert served.world.instance(PROJECT, "vm").status is Status.RUNNING


def test_a_proxy_can_answer_though_the_request_took_effect(served: Served) -> None:
    """The proxy's page says nothing of the VM that is being stopped."""
    served.world.faults.add("garbage", what="html", when="after", count=1)
    answer = served.post(f"{_ZONAL}/instances/vm/stop", {})
    assert answer.headers["content-type"].startswith("text/html")
    served.world.advance(5 * MINUTE)
    assert served.world.instance(PROJECT, "vm").status is Status.TERMINATED


@pytest.mark.parametrize(("misprint", "spot"), [("zero", 0), ("thousandfold", 140_000), ("no_discount", 350)])
def test_a_catalogue_can_be_wrong(served: Served, misprint: str, spot: int) -> None:
    """The bill stays as it is: in dollars a thousand hours of a Spot T4 in us-central1."""

    def shown() -> int:
        skus = served.get("/v1/services/6F81-5844-456A/skus", pageSize=5000).json()["skus"]
        name = "Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Americas"
        (sku,) = [one for one in skus if one["description"] == name and "us-central1" in one["serviceRegions"]]
        price: dict[str, Any] = sku["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"]
        return int(price["units"]) * 1000 + int(price["nanos"]) // 10**6

    before, billed = shown(), served.world.prices.rate("gpu:nvidia-tesla-t4", "us-central1", True, served.world.now)
    fault = served.world.faults.add("misprinted_prices", misprint=misprint)
    assert shown() == spot
    assert served.world.prices.rate("gpu:nvidia-tesla-t4", "us-central1", True, served.world.now) == billed
    served.world.faults.remove(fault.id)
    assert shown() == before


def test_a_page_in_the_middle_can_fail(served: Served) -> None:
    """The pages before it are given, the list as a whole is not."""
    for number in range(4):
        up(served.world, f"more-{number}")
    served.world.faults.add("failing_page", page=2, code=500)
    first = served.get(_ALL, maxResults=2)
    assert first.status_code == 200
    assert served.get(_ALL, maxResults=2, pageToken=first.json()["nextPageToken"]).status_code == 500


def test_an_answer_can_be_slow(served: Served) -> None:
    """A client whose patience is shorter than the delay times out; nothing waits longer than a minute."""
    served.world.faults.add("slow", seconds=5, count=1)
    with pytest.raises(requests.exceptions.ReadTimeout):
        requests.get(served.url + _ALL, timeout=(30, 0.2))
    assert served.get(_ALL).status_code == 200
    served.world.faults.add("slow", seconds=10_000)
    assert served.world.faults.delay(PROJECT, "GET", _ALL) == 60.0


def test_a_project_that_does_not_exist_is_not_found(served: Served) -> None:
    """The zone's VM is not found either; an unknown zone is a bad value, and an unknown path says so."""
    assert served.error("/compute/v1/projects/nobodys/aggregated/instances")[:2] == (404, "notFound")
    assert served.error(f"{_ZONAL}/instances/nobody")[:2] == (404, "notFound")
    assert served.error(f"/compute/v1/projects/{PROJECT}/zones/mars-1a/instances")[:2] == (400, "invalid")
    assert served.error("/compute/v1/nonsense")[0] == 404


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"maxResults": "501"}, "maxResults"),
        ({"pageToken": "made-up"}, "pageToken"),
        ({"filter": "status ="}, "filter"),
        ({"fields": "items(("}, "field selection"),
        ({"orderBy": "colour"}, "orderBy"),
    ],
)
def test_a_bad_parameter_is_a_400_that_names_it(served: Served, query: dict[str, str], text: str) -> None:
    """Nothing is silently ignored that would change the answer."""
    answer = served.get(_ALL, **query)
    assert answer.status_code == 400
    assert text in answer.json()["error"]["message"]


def test_a_body_that_is_not_json_is_a_400(served: Served) -> None:
    """A body that is no object is a 400 too."""
    for raw in ("{", "[]"):
        answer = served.session.post(f"{served.url}{_ZONAL}/instances", data=raw, timeout=30)
        assert answer.status_code == 400


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        ("meteor", {}, "expected one of unreachable_zone"),
        ("rate_limit", {}, "needs 'limit'"),
        ("slow", {"seconds": "5"}, "'seconds' must be a number"),
        ("stockout", {"colour": "red"}, "'colour' is unknown"),
        ("unreachable_zone", {"zone": "mars-1a"}, "not one of Google's zones"),
        ("garbage", {"path": "("}, "regular expression"),
        ("rate_limit", {"limit": True}, "a whole number"),
        ("lost_answer", {"when": "never"}, "one of after, before, later"),
        ("garbage", {"what": "gold"}, "one of cut, empty, html, other"),
        ("lost_answer", {"how": "sideways"}, "one of reset, error, silence, half"),
    ],
)
def test_an_invalid_fault_says_why(kind: str, values: dict[str, Any], text: str) -> None:
    """A misspelt fault would otherwise make a test pass for nothing."""
    with pytest.raises(BadFault, match=text):
        CloudFaults().add(kind, **values)


def _strike(served: Served) -> requests.Response:
    return served.post("/sandbox/events", {"event": "guest-shutdown", "project": PROJECT, "name": "vm"})


def _advance(served: Served) -> requests.Response:
    return served.post("/sandbox/clock", {"advance": 90})


def _recreate(served: Served) -> requests.Response:
    return served.post("/sandbox/events", {"event": "recreate", "project": PROJECT, "name": "vm"})


@pytest.mark.parametrize(
    ("act", "shown"), [(_strike, "operationType"), (_advance, "now"), (_recreate, "statusMessage")]
)
def test_the_world_can_be_driven_over_http(
    served: Served, act: Callable[[Served], requests.Response], shown: str
) -> None:
    """Events strike one VM, and a clock that stands still is moved."""
    answer = act(served)
    assert answer.status_code == 200
    assert shown in answer.json()


def test_wrong_control_requests_say_what_was_expected(served: Served) -> None:
    """A still clock has no speed, and an event needs a VM."""
    assert "advance" in served.post("/sandbox/clock", {"speed": 2}).json()["error"]["message"]
    assert "'event'" in served.post("/sandbox/events", {}).json()["error"]["message"]
    assert "time zone" in served.post("/sandbox/clock", {"to": "2026-12-01T00:00:00"}).json()["error"]["message"]
    assert served.get("/sandbox/projects").json() == {"projects": [PROJECT, "acme-research"]}


def test_clearing_takes_all_or_one_kind() -> None:
    """Both say how many there were."""
    faults = CloudFaults()
    faults.add("garbage")
    faults.add("garbage")
    faults.add("slow", seconds=1)
    assert faults.clear("garbage") == 2
    assert faults.clear() == 1
    assert faults.listed() == []


def test_a_stockout_can_be_for_one_try(served: Served) -> None:
    """The next insert works, so that a launcher's retry can be tested."""
    served.world.faults.add("stockout", count=1)
    operations = [served.world.insert(PROJECT, ZONE, body(f"try-{number}")) for number in range(2)]
    served.world.advance(MINUTE)
    assert [operation.failure is None for operation in operations] == [False, True]


def test_a_stockout_can_begin_after_some_vms(served: Served) -> None:
    """Three of four are had; a zone is not short before."""
    fault = served.world.faults.add("stockout", zone=ZONE, after=3)
    assert fault.shown() == {"id": fault.id, "kind": "stockout", "after": 3, "zone": ZONE}
    operations = []
    for number in range(5):
        operations.append(served.world.insert(PROJECT, ZONE, body(f"try-{number}")))
        vm = served.world.instance(PROJECT, "try-0")
        assert served.world.faults.is_short(PROJECT, ZONE, vm.shape, spot=False) is (number >= 2)
    served.world.advance(MINUTE)
    assert [operation.failure is None for operation in operations] == [True] * 3 + [False] * 2
