"""An agent whose VM shares its metadata with others asks the guard for its token, by Google's word on its VM."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.vm import ATTEMPT, Vm

IDENTITY = "instance/service-accounts/default/identity"
AUDIENCE = "https://guard.example.com/jobs/j1"


@pytest.fixture(autouse=True)
def shared(vm: Vm, guard: FakeGuard) -> None:
    """Puts into the metadata what all VMs of a group share: no attempt, no token, no node."""
    vm.order("true", gang={"nodes": "2"}, claim={"job": "j1", "audience": AUDIENCE}, attempt="")
    vm.metadata.forget("instance/attributes/costguard-token")
    vm.metadata.set("instance/id", "7001")
    vm.metadata.set(IDENTITY, "signed.by.google")
    guard.claimed = lambda _: answer(guard)


def answer(guard: FakeGuard, **more: Any) -> tuple[int, bytes]:
    return 200, json.dumps({"attempt": ATTEMPT, "token": guard.token, "node": 1, "image": "", **more}).encode()


def test_it_reports_as_the_attempt_that_the_guard_named(vm: Vm, guard: FakeGuard) -> None:
    """The document is made for this guard and job, in the format that names the VM."""
    vm.boot()
    guard.wait_for("boot")
    assert f"/api/v1/attempts/{ATTEMPT}/events" in guard.paths
    (claim,) = guard.claims
    assert (claim["job"], claim["document"], len(claim["secret"])) == ("j1", "signed.by.google", 64)
    assert vm.metadata.queries[IDENTITY] == [{"audience": AUDIENCE, "format": "full"}]


def test_it_asks_until_the_guard_knows(vm: Vm, guard: FakeGuard) -> None:
    """A guard that has not seen the VM, refuses it, or answers nonsense, is asked again with the same secret."""
    answers = {1: (503, b"not seen yet"), 2: (401, b"an unknown key"), 3: (200, b"{}")}
    guard.claimed = lambda number: answers.get(number) or answer(guard)
    vm.boot()
    guard.wait_for("boot")
    assert len(guard.claims) == 4
    assert len({claim["secret"] for claim in guard.claims}) == 1


def test_an_agent_that_begins_again_needs_no_second_answer(vm: Vm, guard: FakeGuard) -> None:
    """The answer is kept on the disk, readable by root alone."""
    vm.boot()
    guard.wait_for("boot")
    vm.crash()
    vm.boot()
    guard.wait_for("boot", count=2)
    assert len(guard.claims) == 1
    assert (vm.home / "claim.json").stat().st_mode & 0o077 == 0


def test_an_agent_that_was_killed_before_the_answer_repeats_its_secret(vm: Vm, guard: FakeGuard) -> None:
    """The guard knows it by that as the one that asked first."""
    guard.claimed = lambda number: (503, b"") if number == 1 else answer(guard)
    vm.boot()
    guard.wait_for_requests(1)
    vm.crash()
    vm.boot()
    guard.wait_for("boot")
    assert len({claim["secret"] for claim in guard.claims}) == 1


def test_a_vm_on_a_copy_of_the_disk_asks_for_itself(vm: Vm, guard: FakeGuard) -> None:
    """Another instance has another id, and what lies on the disk is the first one's."""
    vm.boot()
    guard.wait_for("boot")
    vm.crash()
    vm.metadata.set("instance/id", "7002")
    guard.claimed = lambda _: answer(guard, attempt="nightly-7f3a-2")
    vm.attempt = "nightly-7f3a-2"
    vm.boot()
    guard.wait_for_requests(2)
    assert len({claim["secret"] for claim in guard.claims}) == 2
    assert "/api/v1/attempts/nightly-7f3a-2/events" in guard.paths
