"""A refusal, a time-out or nonsense as the answer to any question is "unknown" to the doctor, and never a wrong ok."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter
from tests.doctor.setup import GOOGLE, PROJECTS, SLACK, SUBSCRIPTION, TABLE, TRAINER, DoctorSetup, set_up, troubles_of

from costguard.doctor.finding import CheckState, NotAnswered, Topic
from costguard.doctor.google_checks import enabled
from costguard.doctor.questions import Questions, attempt
from costguard.errors import PermissionDenied

PROJECT = PROJECTS[1]
# Each question by its path, and the lines that rest on its answer: a topic, and where; "" is anywhere.
QUESTIONS = {
    "whose credentials": (r"/tokeninfo", Topic.CREDENTIALS, ""),
    "permissions of a project": (rf"/v3/projects/{PROJECT}:testIam", Topic.PERMISSIONS, PROJECT),
    "APIs": (rf"/v1/projects/{PROJECT}/services", Topic.APIS, PROJECT),
    "quotas over all regions": (rf"/projects/{PROJECT}$", Topic.QUOTAS, PROJECT),
    "quotas of a region": (rf"/projects/{PROJECT}/regions/us-central1$", Topic.QUOTAS, PROJECT),
    "images": (r"/global/images/", Topic.PRESETS, ""),
    "machine types": (r"/machineTypes/", Topic.PRESETS, ""),
    "GPUs": (r"/acceleratorTypes/nvidia-tesla-t4", Topic.PRESETS, "t4"),
    "an account": (rf"/serviceAccounts/{TRAINER}", Topic.PERMISSIONS, TRAINER),
    "a bucket": (r"/b/acme-code/iam", Topic.BUCKETS, "gs://acme-code"),
    "the events' subscription": (r"/subscriptions/costguard-events:testIam", Topic.EVENTS, SUBSCRIPTION),
    "a table": (r"/tables/export:test", Topic.BILL, TABLE),
}
FAULTS: dict[str, dict[str, Any]] = {
    "403": {"kind": "server_error", "code": 403},
    "500": {"kind": "server_error", "code": 500},
    "429": {"kind": "too_many_requests", "seconds": 60.0},
    "a broken connection": {"kind": "lost_answer", "how": "reset"},
    "half an answer": {"kind": "lost_answer", "how": "half"},
    "a proxy's page": {"kind": "garbage", "what": "html"},
    "broken JSON": {"kind": "garbage", "what": "cut"},
    "an empty object": {"kind": "garbage", "what": "empty"},
    "another answer": {"kind": "garbage", "what": "other"},
}


class Late(HTTPAdapter):
    """Lets one question wait until its time is up, without waiting."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def send(self, request: Any, *args: Any, **more: Any) -> Any:
        if re.search(self._path, request.url.partition("?")[0]):
            raise requests.exceptions.ReadTimeout("Read timed out. (read timeout=5.0)", request=request)
        return super().send(request, *args, **more)


def _never(_seconds: float) -> bool:
    """No question is repeated: the wait before it is cut short."""
    return True


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoctorSetup]:
    with set_up(tmp_path_factory.mktemp("doctor"), GOOGLE + SLACK) as made:
        made.world.slack.limits.enforced = False
        made.world.insert(
            PROJECT,
            "us-central1-a",
            {
                "name": "other",
                "machineType": "zones/us-central1-a/machineTypes/n1-standard-4",
                "disks": [{"boot": True, "initializeParams": {"sourceImage": "debian-12"}}],
                "networkInterfaces": [{"network": "global/networks/default"}],
            },
        )
        yield made


@pytest.fixture
def setup(whole: DoctorSetup) -> Iterator[DoctorSetup]:
    yield whole
    whole.world.faults.clear()
    whole.world.slack.faults.clear()


def doubted(setup: DoctorSetup, topic: Topic, where: str, **options: Any) -> None:
    """Some line is unknown, none is a need, and nothing that rests on the question is `ok`."""
    findings = setup.findings(**options)
    made = [one for one in troubles_of(findings) if one.name != "message"]
    assert {one.state for one in made} == {CheckState.UNKNOWN}, made
    assert any(one.topic is topic for one in made)
    assert [one for one in findings if one.is_ok and one.topic is topic and where in ("", one.where)] == []
    assert all(one.sentence.endswith(".") for one in made)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize(("path", "topic", "where"), QUESTIONS.values(), ids=QUESTIONS.keys())
def test_no_answer_of_google_is_no_ok(
    fault: dict[str, Any], path: str, topic: Topic, where: str, setup: DoctorSetup
) -> None:
    """Every question, with every answer that says nothing."""
    values = dict(fault)
    setup.world.faults.add(values.pop("kind"), path=path, **values)
    doubted(setup, topic, where, transport={"wait": _never})


def test_an_api_that_the_answer_leaves_out_is_unknown() -> None:
    """Where a service is missing in the answer, the others do not vouch for it."""
    wanted = {"compute.googleapis.com", "tpu.googleapis.com"}
    (only,) = enabled(PROJECT, wanted, {"compute.googleapis.com": True})
    assert (only.state, only.name) == (CheckState.UNKNOWN, "tpu.googleapis.com")
    (whole,) = enabled(PROJECT, wanted, dict.fromkeys(wanted, True))
    assert whole.is_ok


@pytest.mark.parametrize(("path", "topic", "where"), QUESTIONS.values(), ids=QUESTIONS.keys())
def test_a_late_answer_of_google_is_no_ok(path: str, topic: Topic, where: str, setup: DoctorSetup) -> None:
    """A question whose time is up leaves the lines of all others as they are."""
    doubted(setup, topic, where, transport={"wait": _never, "adapter": Late(path)})


SLACK_CALLS = ("auth.test", "conversations.list", "conversations.info", "users.lookupByEmail", "conversations.open")


@pytest.mark.parametrize("kind", ["down", "broken", "rate_limited", "error", "garbage"])
@pytest.mark.parametrize("method", [*SLACK_CALLS, "chat.postMessage", "chat.update"])
def test_no_answer_of_slack_is_no_ok(kind: str, method: str, setup: DoctorSetup) -> None:
    """Each call, with each way not to answer."""
    setup.world.slack.faults.add(kind, method=method)
    made = setup.troubles(post=method.startswith("chat."))
    assert {one.state for one in made} == {CheckState.UNKNOWN}
    expected = {"auth.test": "token", "chat.postMessage": "message", "chat.update": "message"}
    assert {"message", expected.get(method, "")} & {one.name for one in made}
    if method.startswith(("conversations.", "users.")):
        assert any(one.name.startswith(("channel ", "person ")) for one in made)


@pytest.mark.parametrize("what", ["html", "empty", "cut"])
def test_nonsense_in_place_of_slack(what: str, setup: DoctorSetup) -> None:
    """A proxy's 200 says neither that the token is good nor that it is bad."""
    setup.world.slack.faults.add("garbage", method="auth.test", what=what)
    (only,) = setup.troubles()
    assert (only.name, only.state) == ("token", CheckState.UNKNOWN)


def test_a_token_that_was_revoked_is_a_need(setup: DoctorSetup) -> None:
    """Slack's own refusal is no doubt."""
    setup.world.slack.tokens.invalidate("token_revoked")
    try:
        (only,) = setup.troubles()
    finally:
        setup.world.slack.tokens.reset()
    assert (only.name, only.state) == ("token", CheckState.NEEDS)
    assert "bot token" in only.command


def test_what_hangs_delays_no_other_answer() -> None:
    """The answers that are there are given at once; the one that hangs is unknown when the time is up."""
    now_s, hang = [0.0], threading.Event()
    with Questions(8.0, threads=2, monotonic=lambda: now_s[0]) as questions:
        questions.put("hangs", hang.wait)
        for number in range(10):
            questions.put(number, lambda number=number: number)  # type: ignore[misc]
        assert [questions.answer(number) for number in range(10)] == list(range(10))
        now_s[0] = 8.0
        assert questions.answer("hangs") == NotAnswered("no answer within 8 s.")
        hang.set()


def test_an_error_in_one_question_is_its_own() -> None:
    """A fault of ours in a reader is reported as such, and ends nothing."""

    def broken() -> int:
        raise ZeroDivisionError("division by zero")

    with Questions(8.0, threads=1) as questions:
        questions.put("broken", broken)
        questions.put("well", lambda: 1)
        assert questions.answer("well") == 1
        answer = questions.answer("broken")
    assert isinstance(answer, NotAnswered)
    assert "ZeroDivisionError" in answer.why


# As ../shared/outside/errors has them, in the sentence that the adapter makes of an answer.
DENIALS = {
    "VPC Service Controls": (
        "Reading permissions of project lab: Cloud Resource Manager answered 403: Request is prohibited by "
        "organization's policy. vpcServiceControlsUniqueIdentifier: PLACEHOLDER.",
        "perimeter",
    ),
    "a scope": (
        "Reading permissions of project lab: Cloud Resource Manager answered 403: Request had insufficient "
        "authentication scopes.",
        "scope",
    ),
    "an API": (
        "Reading which APIs are enabled of project lab: Service Usage answered 403: Service Usage API has not been "
        "used in project 123456789 before or it is disabled.",
        "gcloud services enable serviceusage.googleapis.com",
    ),
}


@pytest.mark.parametrize(("said", "mends"), DENIALS.values(), ids=DENIALS.keys())
def test_what_an_answer_says_itself_is_not_called_a_missing_role(said: str, mends: str) -> None:
    """The reason names what mends it, and no role where none is missing."""

    def refused() -> None:
        raise PermissionDenied(said, "Grant the role of deploy/iam-role.yaml, or roles/browser, on project lab.")

    answer = attempt(refused)
    assert isinstance(answer, NotAnswered)
    assert mends in answer.why
    assert "iam-role.yaml" not in answer.why
