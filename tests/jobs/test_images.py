"""An image's tag is resolved once: what the first VM pulled is what every later one runs."""

from __future__ import annotations

import pytest
from tests.jobs.world import World, world

from costguard.model.job import JobState

TAG = "europe-docker.pkg.dev/ml/train/bert:1.4"
FIRST, MOVED = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def pulled(of: World, name: str, digest: str) -> None:
    of.say(name, ("boot", {}), ("image", {"image": TAG, "digest": digest}), ("start", {}))
    of.settle(1)


def lose(of: World, name: str) -> None:
    of.notice(name)
    of.cloud.preempt(of.vm(name))
    of.settle(3)


def image_of(of: World, name: str) -> str:
    (result,) = [one for one in of.attempts() if one.name == name]
    return result.image


@pytest.mark.parametrize(("pull", "second"), [(False, f"{TAG}@{FIRST}"), (True, TAG)])
def test_a_later_attempt_runs_the_digest_of_the_first_pull(sqlite_url: str, pull: bool, second: str) -> None:
    """Unless the job asks for the tag again; each VM's own digest is recorded either way."""
    with world(sqlite_url) as of:
        of.submit(image=TAG, pull=pull)
        of.until_up("cg-j1-1")
        pulled(of, "cg-j1-1", FIRST)
        lose(of, "cg-j1-1")
        of.until_up("cg-j1-2")
        assert (image_of(of, "cg-j1-1"), image_of(of, "cg-j1-2")) == (TAG, second)
        assert f"('image', '{second}')" in of.vm("cg-j1-2").request.metadata["costguard-attempt"]
        pulled(of, "cg-j1-2", MOVED if pull else FIRST)
        assert [one.agent.image_digest for one in of.attempts()] == [FIRST, MOVED if pull else FIRST]


def test_an_image_that_does_not_exist_costs_one_vm(sqlite_url: str) -> None:
    """The job fails with Docker's words, and no second VM is asked for."""
    words = "docker pull acme/train:9 failed: Error response from daemon: manifest unknown"
    with world(sqlite_url) as of:
        of.submit(image="acme/train:9")
        of.until_up("cg-j1-1")
        of.say("cg-j1-1", ("boot", {}), ("exit", {"reason": "not_started", "error": words, "repeats": True}))
        of.settle(5)
        assert of.job().state is JobState.FAILED
        assert words in of.job().reason
        assert len(of.attempts()) == 1
        assert of.cloud.there() == []


@pytest.mark.parametrize("digest", ["", "sha256:short", 7, None])
def test_an_image_without_a_digest_is_asked_for_by_its_tag(sqlite_url: str, digest: object) -> None:
    """A copy that only the VM knows has none, and nonsense is none."""
    with world(sqlite_url) as of:
        of.submit(image=TAG)
        of.until_up("cg-j1-1")
        of.say("cg-j1-1", ("boot", {}), ("image", {"digest": digest}), ("start", {}))
        of.settle(1)
        lose(of, "cg-j1-1")
        of.until_up("cg-j1-2")
        assert image_of(of, "cg-j1-2") == TAG
