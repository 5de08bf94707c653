"""Everything that can go wrong with a look: it is reported as "not known", never as "gone", and never raised."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from typing import Any

import google.auth.credentials
import pytest
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError
from tests.gce.bodies import ZONE, cloud_of, disk, instance, page
from tests.gce.conftest import Connect, Ticking, Waits
from tests.gce.server import Answer, google_error, json_answer

from costguard.gce.client import ComputeCloud, Patience
from costguard.model.mending import command_for, with_command
from costguard.model.observation import Observation

EAST = "us-east1-b"


def codes(look: Observation) -> dict[str, str]:
    return {part.scope: part.code for part in look.unread}


def names(look: Observation) -> list[str]:
    return sorted(seen.name for seen in look.instances)


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (google_error(403, "forbidden"), "permission", "or roles/compute.viewer, on project p"),
        (google_error(403, "accessNotConfigured"), "api_disabled", "gcloud services enable compute.googleapis.com"),
        (google_error(401, "authError"), "credentials", "gcloud auth application-default login"),
        (google_error(404, "notFound"), "not_found", "Check that project p exists"),
    ],
)
def test_a_project_that_cannot_be_read(connect: Connect, answer: Answer, code: str, said: str) -> None:
    """An error of the whole project is reported once, with what to do, and the other lists are not asked for."""
    setup = connect(cloud_of(instances=answer))
    look = setup.cloud.observe("p", None)
    assert codes(look) == {"project": code}
    assert said in look.unread[0].reason
    assert (look.instances, look.instances_complete, look.operations_through_at) == ((), False, None)
    assert setup.server.paths() == ["instances"]


_PERIMETER = "Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: abcdefgh"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (_PERIMETER, "vpc_service_controls", "vpcServiceControlsUniqueId"),
        ("Constraint constraints/gcp.restrictServiceUsage violated for project p.", "org_policy", "org-policies"),
        ("Request had insufficient authentication scopes.", "scope", "set-service-account"),
        ("Project p has billing disabled. Please enable it.", "billing", "gcloud billing projects link p"),
    ],
)
def test_a_denial_that_no_role_mends_is_not_called_a_missing_role(
    connect: Connect, words: str, code: str, said: str
) -> None:
    """The kind counts it; its reason names the command that mends it, and none that grants a role."""
    look = connect(cloud_of(instances=google_error(403, "forbidden", words))).cloud.observe("p", None)
    assert codes(look) == {"project": code}
    assert said in look.unread[0].reason
    assert "add-iam-policy-binding" not in with_command("p", look.unread[0])
    assert "iam-role" not in look.unread[0].reason


def test_a_denial_without_a_cause_gets_no_command(connect: Connect) -> None:
    """403 alone has too many causes for a guess."""
    look = connect(cloud_of(instances=google_error(403, "mystery", "The flux is out of phase"))).cloud.observe(
        "p", None
    )
    assert "The flux is out of phase" in look.unread[0].reason
    assert command_for("p", look.unread[0]) == ""


def test_other_projects_go_on(connect: Connect) -> None:
    """A project that lost its permission does not disturb its neighbour."""
    lists = cloud_of()
    setup = connect(
        lambda request: google_error(403, "forbidden") if "/projects/lost/" in request.path else lists(request)
    )
    assert codes(setup.cloud.observe("lost", None)) == {"project": "permission"}
    assert names(setup.cloud.observe("p", None)) == ["trainer"]


def test_a_page_that_fails(connect: Connect) -> None:
    """The pages before the failure are kept; the listing is incomplete; the rest of the look goes on."""
    pages: list[Any] = [
        page("instances", {f"zones/{ZONE}": [instance("a", "1")]}, nextPageToken="t"),
        google_error(500, "backendError"),
    ]
    look = connect(cloud_of(instances=pages)).cloud.observe("p", None)
    assert names(look) == ["a"]
    assert not look.instances_complete
    assert codes(look) == {"instances": "unavailable"}
    assert look.operations_through_at is not None


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_passing_trouble_is_waited_out(connect: Connect, status: int) -> None:
    """A server that is briefly in trouble is asked again after a growing wait."""
    good = page("instances", {f"zones/{ZONE}": [instance()]})
    setup = connect(cloud_of(instances=[google_error(status, "x"), google_error(status, "x"), good]))
    look = setup.cloud.observe("p", None)
    assert (names(look), look.unread) == (["trainer"], ())
    first, second = setup.waits.seconds
    assert 0.2 < first < second < 3


def test_google_says_how_long_to_wait(connect: Connect) -> None:
    """A Retry-After is kept where the look has the time for it; where it has not, the next pass asks again."""
    good = page("instances", {f"zones/{ZONE}": [instance()]})
    for seconds, tries in ((40, 2), (3600, 1)):
        limited = replace(google_error(429, "rateLimitExceeded"), headers={"Retry-After": str(seconds)})
        setup = connect(cloud_of(instances=[limited, good]), patience=Patience(look_s=100.0))
        look = setup.cloud.observe("p", None)
        assert setup.server.paths().count("instances") == tries
        assert setup.waits.seconds == ([40.0] if tries == 2 else [])
        assert look.instances_complete is (tries == 2)


def test_google_says_403_for_its_rate_limit(connect: Connect) -> None:
    """Compute Engine's rate limit is a 403, told from a missing permission by its reason; tries are few."""
    limit = google_error(403, "rateLimitExceeded", "Quota exceeded for quota metric 'Read requests'")
    setup = connect(cloud_of(instances=limit))
    look = setup.cloud.observe("p", None)
    assert codes(look) == {"instances": "rate_limit"}
    assert "Quota exceeded" in look.unread[0].reason
    assert setup.server.paths().count("instances") == 4
    assert len(setup.waits.seconds) == 3


@pytest.mark.parametrize("status", [400, 403, 404])
def test_a_refusal_is_not_repeated(connect: Connect, status: int) -> None:
    """The request that will not pass by itself is made once."""
    setup = connect(cloud_of(instances=google_error(status, "x")))
    setup.cloud.observe("p", None)
    assert setup.server.paths().count("instances") == 1


def test_a_shutdown_ends_the_waiting(connect: Connect) -> None:
    """A wait that is cut short ends the tries at once, so a daemon can stop in mid-pass."""
    setup = connect(cloud_of(instances=google_error(503, "x")), wait=Waits(stopped=True))
    assert codes(setup.cloud.observe("p", None)) == {"instances": "unavailable"}
    assert setup.server.paths().count("instances") == 1


def test_closing_ends_the_waiting(connect: Connect) -> None:
    """The cloud waits on what close() sets, without a wait of its own."""
    setup = connect(cloud_of(instances=google_error(503, "x")))
    cloud = ComputeCloud(setup.server.url, Ticking())
    cloud.close()
    assert not cloud.observe("p", None).instances_complete


def test_the_whole_look_is_bounded(connect: Connect) -> None:
    """Once the time of a look is used up nothing more is requested, and that is reported."""
    ticks = iter(range(0, 100_000, 40))
    setup = connect(cloud_of(), patience=Patience(look_s=100.0), monotonic=lambda: float(next(ticks)))
    look = setup.cloud.observe("p", None)
    assert not look.instances_complete or look.operations_through_at is None
    assert set(codes(look).values()) == {"unreachable"}


def test_nobody_listens() -> None:
    """A refused connection is tried again a few times and then told, for the project as a whole."""
    waits = Waits()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and never listens
        cloud = ComputeCloud(f"http://127.0.0.1:{silent.getsockname()[1]}", Ticking(), wait=waits)
        look = cloud.observe("p", None)
    assert codes(look) == {"project": "unreachable"}
    assert "Connection refused" in look.unread[0].reason
    assert "fields=" not in look.unread[0].reason
    assert len(waits.seconds) == 3


def test_a_broken_connection(connect: Connect) -> None:
    """A body that ends too soon is a broken connection, not an answer."""
    good = page("instances", {f"zones/{ZONE}": [instance()]})
    setup = connect(cloud_of(instances=[Answer(b'{"kind": "comp', promised=5000), good]))
    assert names(setup.cloud.observe("p", None)) == ["trainer"]
    assert len(setup.waits.seconds) == 1


def test_a_slow_answer(connect: Connect) -> None:
    """An answer that does not come in time is given up, and the next try may succeed."""
    over = threading.Event()
    good = page("instances", {f"zones/{ZONE}": [instance()]})
    setup = connect(cloud_of(instances=[Answer(before_body=over.wait), good]), patience=Patience(request_s=2))
    look = setup.cloud.observe("p", None)
    over.set()
    assert (names(look), len(setup.waits.seconds)) == (["trainer"], 1)


@pytest.mark.parametrize(
    "body", [b"<html>Bad gateway</html>", b"[]", b"{}", b'{"kind": "compute#instanceAggregatedList", "items": []}']
)
def test_answers_that_are_not_lists(connect: Connect, body: bytes) -> None:
    """A 200 that is not the list that was asked for never reads as an empty fleet."""
    look = connect(cloud_of(instances=Answer(body))).cloud.observe("p", None)
    assert not look.instances_complete
    assert codes(look) == {"instances": "bad_answer"}


def test_a_proxy_s_error_page(connect: Connect) -> None:
    """The markup of an error page is kept from people; its status is shown."""
    look = connect(cloud_of(instances=Answer(b"<html>Bad gateway</html>", 502))).cloud.observe("p", None)
    assert codes(look) == {"instances": "unavailable"}
    assert "answered 502: a page of HTML" in look.unread[0].reason


def test_a_token_that_leads_nowhere(connect: Connect) -> None:
    """A list that repeats its page token is left, not followed for ever."""
    setup = connect(cloud_of(instances=page("instances", {}, nextPageToken="again")))
    assert codes(setup.cloud.observe("p", None)) == {"instances": "bad_answer"}
    assert setup.server.paths().count("instances") == 2


@pytest.mark.parametrize("place", [f"zones/{EAST}", f"projects/p/zones/{EAST}", f"projects/p/zones/{EAST}/instances/x"])
def test_an_unreachable_zone(connect: Connect, place: str) -> None:
    """A zone that did not answer is unread; every other zone counts."""
    answer = page("instances", {f"zones/{ZONE}": [instance()]}, unreachables=[place])
    look = connect(cloud_of(instances=answer)).cloud.observe("p", None)
    assert (names(look), look.unread_zones, look.instances_complete) == (["trainer"], frozenset({EAST}), True)
    assert codes(look) == {EAST: "unreachable"}


def test_a_zone_with_a_warning(connect: Connect) -> None:
    """A zone's warning other than "no results" makes it unread, and what came of it is kept."""
    held = {"instances": [instance()], "warning": {"code": "UNREACHABLE"}}
    look = connect(cloud_of(instances=page("instances", {f"zones/{ZONE}": held}))).cloud.observe("p", None)
    assert (names(look), look.unread_zones) == (["trainer"], frozenset({ZONE}))


def test_an_unreachable_place_that_is_no_zone(connect: Connect) -> None:
    """When a region or an unknown place did not answer, no zone's list can be taken for whole."""
    for more in ({"unreachables": ["regions/us-east1"]}, {"warning": {"code": "UNREACHABLE"}}):
        look = connect(cloud_of(instances=page("instances", {}, **more))).cloud.observe("p", None)
        assert not look.instances_complete
        assert codes(look) == {"instances": "unreachable"}


def test_a_garbled_vm(connect: Connect) -> None:
    """A garbled VM costs no other; its zone is unread, so that it is not taken for gone."""
    members = [instance("a", "1"), instance("b", "2", creationTimestamp="soon"), "nonsense", instance("c", "3")]
    answer = page("instances", {f"zones/{ZONE}": members, f"zones/{EAST}": [instance("d", "4", EAST)]})
    look = connect(cloud_of(instances=answer)).cloud.observe("p", None)
    assert names(look) == ["a", "c", "d"]
    assert (look.unread_zones, look.instances_complete) == (frozenset({ZONE}), True)
    assert codes(look) == {ZONE: "bad_answer"}
    assert "2 of the VMs" in look.unread[0].reason
    assert "instance 'b'" in look.unread[0].reason


def test_a_garbled_zone(connect: Connect) -> None:
    """A zone whose part is not a list at all is unread."""
    answer = page("instances", {f"zones/{ZONE}": {"instances": "many"}, f"zones/{EAST}": [instance("d", "4", EAST)]})
    answer["items"]["zones/us-west1-a"] = 7
    look = connect(cloud_of(instances=answer)).cloud.observe("p", None)
    assert (names(look), look.unread_zones) == (["d"], frozenset({ZONE, "us-west1-a"}))


def test_a_vm_outside_every_zone(connect: Connect) -> None:
    """A VM listed under no zone is reported, and the listing then is not whole."""
    look = connect(cloud_of(instances=page("instances", {"global": [instance()]}))).cloud.observe("p", None)
    assert (look.instances, look.instances_complete) == ((), False)
    assert codes(look) == {"instances": "bad_answer"}


@pytest.mark.parametrize("answer", [google_error(403, "forbidden"), Answer(b"}"), google_error(503, "x")])
def test_disks_that_cannot_be_read(connect: Connect, answer: Answer) -> None:
    """The VMs are still seen without the disks, their disks' types unknown."""
    look = connect(cloud_of(disks=answer)).cloud.observe("p", None)
    assert (names(look), look.instances_complete) == (["trainer"], True)
    assert look.instances[0].disks[0].disk_type is None
    assert list(codes(look)) == ["disks"]


def test_a_garbled_disk(connect: Connect) -> None:
    """A garbled disk leaves only its own type unknown, and is reported."""
    disks = page("disks", {f"zones/{ZONE}": [disk("other", type=5), disk(), None]})
    look = connect(cloud_of(disks=disks)).cloud.observe("p", None)
    assert look.instances[0].disks[0].disk_type == "pd-balanced"
    assert codes(look) == {"disks": "unreachable"}


def test_disks_of_an_unreachable_zone(connect: Connect) -> None:
    """A zone whose disks did not answer is reported under disks; it says nothing about the VMs there."""
    disks = page("disks", {}, unreachables=[f"zones/{ZONE}"])
    look = connect(cloud_of(disks=disks)).cloud.observe("p", None)
    assert (codes(look), look.unread_zones) == ({"disks": "unreachable"}, frozenset())


class Credentials(google.auth.credentials.Credentials):
    """Credentials whose token was never fetched, and cannot be."""

    def __init__(self, error: Exception) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.error = error

    def refresh(self, request: object) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RefreshError("invalid_grant: Token has been expired or revoked.", {"error": "x"}), "credentials"),  # type: ignore[no-untyped-call]
        (DefaultCredentialsError("Your default credentials were not found."), "credentials"),  # type: ignore[no-untyped-call]
        (TransportError("metadata.google.internal did not answer"), "unreachable"),  # type: ignore[no-untyped-call]
        (RefreshError("try again", retryable=True), "unreachable"),  # type: ignore[no-untyped-call]
    ],
)
def test_credentials_that_fail(connect: Connect, error: Exception, code: str) -> None:
    """Expired or absent credentials are reported; a token server that is silent is no answer. Nothing is raised."""
    setup = connect(cloud_of(), credentials=Credentials(error))
    look = setup.cloud.observe("p", None)
    assert codes(look) == {"project": code}
    assert str(error.args[0]).rstrip(".") in look.unread[0].reason
    assert setup.server.requests == []


class Signed(google.auth.credentials.Credentials):
    service_account_email = "guard@p.iam.gserviceaccount.com"

    def refresh(self, request: object) -> None:
        self.token = "a-token"


def test_given_credentials_are_sent(connect: Connect) -> None:
    """Credentials sign every request, and a refusal names the account that lacks the role."""
    credentials: Any = Signed()  # type: ignore[no-untyped-call]
    setup = connect(cloud_of(disks=google_error(403, "forbidden")), credentials=credentials)
    look = setup.cloud.observe("p", None)
    assert {one.headers["authorization"] for one in setup.server.requests} == {"Bearer a-token"}
    assert "to guard@p.iam.gserviceaccount.com" in look.unread[0].reason


def test_projects_in_parallel(connect: Connect) -> None:
    """Several projects may be looked at at once, each with its own answer."""
    from concurrent.futures import ThreadPoolExecutor

    def answer_for(path: str) -> str:
        return path.split("/projects/", 1)[1].split("/", 1)[0]

    lists = cloud_of()
    setup = connect(
        lambda request: (
            json_answer(page("instances", {f"zones/{ZONE}": [instance(answer_for(request.path))]}))
            if request.path.endswith("/instances")
            else lists(request)
        )
    )
    projects = [f"p{n}" for n in range(12)]
    with ThreadPoolExecutor(6) as pool:
        looks = list(pool.map(lambda project: setup.cloud.observe(project, None), projects * 3))
    assert [names(look) for look in looks] == [[project] for project in projects * 3]
