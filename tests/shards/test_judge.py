"""The judge of two replicas catches each fault that is planted into a run without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.shards import judge
from tests.shards.judge import Kill, Request

ACCOUNT = "costguard@example.iam.gserviceaccount.com"
BEGAN = datetime(2026, 11, 29, 8, tzinfo=UTC)
A, B = "127.0.0.1:80", "localhost:80"
PROJECTS = ("one", "two")


def _after(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def _look(seconds: float, project: str, host: str) -> Request:
    path = f"/compute/v1/projects/{project}/aggregated/instances"
    return Request(_after(seconds), host, "", "GET", path, "maxResults=500", 200)


def _change(name: str, request_id: str) -> Request:
    path = f"/compute/v1/projects/one/zones/us-central1-a/instances/{name}/stop"
    return Request(_after(5), A, "", "POST", path, f"requestId={request_id}", 200)


KILL = Kill(_after(25), A, _after(40))
LOOKS = [
    *(_look(at, "one", A) for at in (1, 11, 21)),  # its replica is killed at 25
    *(_look(at, "one", B) for at in (38, 48, 58)),
    *(_look(at, "two", B) for at in range(5, 60, 10)),
]


def _broken(looks: list[Request]) -> list[str]:
    return judge.unwatched(judge.gaps(looks, [KILL], PROJECTS, BEGAN, _after(60)))


def test_projects_taken_over_in_time_are_watched() -> None:
    """The next look at 38 is 13 s after the kill at 25, though 17 s after the look before it."""
    assert _broken(LOOKS) == []


@pytest.mark.parametrize(
    ("looks", "words"),
    [
        ([one for one in LOOKS if one.at != _after(38)], "23.0 s from 08:00:25"),
        ([replace(one, host=A) if one.at == _after(38) else one for one in LOOKS], "23.0 s from 08:00:25"),
        ([replace(one, status=503) if one.at == _after(38) else one for one in LOOKS], "23.0 s"),
        ([replace(one, user="ana@example.com") if one.at == _after(38) else one for one in LOOKS], "23.0 s"),
        ([replace(one, query="pageToken=7") if one.at == _after(38) else one for one in LOOKS], "23.0 s"),
        ([one for one in LOOKS if one.at not in (_after(48), _after(58))], "22.0 s from 08:00:38"),
        (
            [one for one in LOOKS if one.at not in (_after(25), _after(35))],
            "two was not looked at for 30.0 s from 08:00:15",
        ),
        ([one for one in LOOKS if "/two/" not in one.path], "two was not looked at for 60.0 s from 08:00:00"),
    ],
    ids=[
        "late",
        "by a process that was killed",
        "not answered",
        "a person",
        "a later page",
        "at the end",
        "watched by the other replica",
        "never",
    ],
)
def test_project_without_a_look_for_over_15_seconds_is_named(looks: list[Request], words: str) -> None:
    """A look counts where a replica that lives asked for the first page and was answered."""
    assert words in " ".join(_broken(looks))


def test_vm_asked_for_under_two_ids_is_named() -> None:
    """An id again is one request, sent twice; another one, or none, is another request. What people do is theirs."""
    again = [_change("vm-1", "x"), _change("vm-1", "x"), _change("vm-2", "y")]
    assert list(judge.asked_twice(again)) == []
    assert len(list(judge.asked_twice([*again, _change("vm-1", "z")]))) == 1
    assert len(list(judge.asked_twice([*again, _change("vm-3", "")]))) == 1
    assert list(judge.asked_twice([*again, replace(_change("vm-1", "z"), user="ana@example.com")])) == []


@pytest.mark.parametrize("kind", ["insert", "stop", "delete"])
def test_vm_made_stopped_or_deleted_twice_is_named(kind: str) -> None:
    """An operation that failed, and one of a person, are none of Costguard's deeds."""
    done = {"operationType": kind, "targetLink": "https://x/projects/one/zones/z/instances/vm-1", "user": ACCOUNT}
    by_a_person, failed = {**done, "user": "ana@example.com"}, {**done, "error": {"errors": []}}
    assert list(judge.done_twice([done, by_a_person, failed], ACCOUNT)) == []
    assert list(judge.done_twice([done, done], ACCOUNT)) == [f"2 operations {kind} of one/zones/z/instances/vm-1"]


def _message(ts: str, key: str, ephemeral_to: str = "") -> Mapping[str, Any]:
    return {"channel": "C1", "ts": ts, "ephemeral_to": ephemeral_to, "metadata": {"event_payload": {"key": key}}}


def test_message_posted_twice_is_named_and_an_edit_is_none() -> None:
    """A message is known by its place, and what it is about by its key."""
    keys = judge.posted([_message("1", "a"), _message("1", "a"), _message("2", "b")])
    assert keys == {"a": 1, "b": 1}
    assert list(judge.said_wrongly(keys, {"a": "accepted", "b": "accepted"})) == []
    twice = judge.posted([_message("1", "a"), _message("3", "a")])
    assert list(judge.said_wrongly(twice, {"a": "accepted"})) == ["message a was posted 2 times"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"a": "failed"}, "message a is in Slack, and failed in the ledger"),
        ({}, "message a is in Slack, and not in the ledger"),
        ({"a": "accepted", "b": "accepted"}, "message b is accepted, and not in Slack"),
        ({"a": "accepted", "b": "sending"}, "message b still waits at the end"),
    ],
)
def test_messages_that_slack_and_ledger_disagree_on_are_named(status: Mapping[str, str], words: str) -> None:
    """Slack has the messages that the ledger has as accepted, and no others."""
    assert list(judge.said_wrongly(Counter({"a": 1}), status)) == [words]


@pytest.mark.parametrize(
    ("spent", "differing"),
    [
        ({"1": 20_000_000, "2": 0}, 0),
        ({"1": 24_999_999}, 0),
        ({"1": 25_000_000}, 1),
        ({}, 1),
        ({"1": 20_000_000, "3": 5_000_000}, 1),
    ],
    ids=["equal", "a fraction of a cent", "half a cent", "missing", "not billed"],
)
def test_bill_and_ledger_that_differ_by_half_a_cent_are_named(spent: Mapping[str, int], differing: int) -> None:
    """Either side may lack a VM only where the other has no amount for it."""
    assert len(list(judge.differences({"1": 20_000_000, "2": 0}, spent))) == differing


def _job(state: str, *attempts: str) -> Mapping[str, Any]:
    return {"job": {"id": "j1", "state": state}, "attempts": [{"name": name} for name in attempts]}


def _done(kind: str, *names: str) -> list[Mapping[str, Any]]:
    return [{"operationType": kind, "targetLink": f"https://x/instances/{name}"} for name in names]


@pytest.mark.parametrize(
    ("job", "made", "words"),
    [
        (_job("succeeded", "j1-1", "j1-2"), ("j1-1", "j1-2"), ""),
        (_job("failed", "j1-1", "j1-2"), ("j1-1", "j1-2"), "job j1 is failed"),
        (_job("succeeded", "j1-1", "j1-2", "j1-3"), ("j1-1", "j1-2", "j1-3"), "j1-3 followed j1-2"),
        (_job("succeeded", "j1-1", "j1-2"), ("j1-1", "j1-2", "j1-2"), "attempt j1-2 had 2 VMs"),
        (_job("succeeded", "j1-1", "j1-2"), ("j1-1",), "attempt j1-2 had 0 VMs"),
    ],
    ids=["one VM each", "failed", "one too many", "two VMs of an attempt", "no VM"],
)
def test_job_with_more_vms_than_preemptions_need_is_named(
    job: Mapping[str, Any], made: tuple[str, ...], words: str
) -> None:
    """A job has one attempt, and one more for each preemption; each attempt has one VM."""
    inserts = list(_done("insert", *made))
    operations = [*inserts, *_done("compute.instances.preempted", "j1-1")]
    for wrong in (
        list(judge.jobs_gone_wrong([job], operations, ())),
        list(judge.jobs_gone_wrong([job], inserts, {"j1-1"})),  # its notice was enough, and no operation was written
    ):
        assert len(wrong) == bool(words)
        assert words in " ".join(wrong)
