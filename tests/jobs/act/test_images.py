"""An image's tag is resolved once: what the first VM pulled is what every later one runs."""

from __future__ import annotations

import pytest
from tests.jobs.world import World, world

from costguard.model.job import JobState

TAG = "europe-docker.pkg.dev/ml/train/bert:1.4"
FIRST, MOVED = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def pulled(w: World, name: str, digest: str) -> None:
    w.say(name, ("boot", {}), ("image", {"image": TAG, "digest": digest}), ("start", {}))
    w.settle(1)


def lose(w: World, name: str) -> None:
    w.notice(name)
    w.cloud.preempt(w.vm(name))
    w.settle(3)


def image_of(w: World, name: str) -> str:
    (result,) = [one for one in w.attempts() if one.name == name]
    return result.image


@pytest.mark.parametrize(("pull", "second"), [(False, f"{TAG}@{FIRST}"), (True, TAG)])
def test_a_later_attempt_runs_the_digest_of_the_first_pull(sqlite_url: str, pull: bool, second: str) -> None:
    """The tag is read again only where the job asks for it; each VM's own digest is recorded either way."""
    with world(sqlite_url) as w:
        w.submit(image=TAG, pull=pull)
        w.until_up("cg-j1-1")
        pulled(w, "cg-j1-1", FIRST)
        lose(w, "cg-j1-1")
        w.until_up("cg-j1-2")
        assert (image_of(w, "cg-j1-1"), image_of(w, "cg-j1-2")) == (TAG, second)
        assert f"('image', '{second}')" in w.vm("cg-j1-2").request.metadata["costguard-attempt"]
        pulled(w, "cg-j1-2", MOVED if pull else FIRST)
        assert [one.agent.image_digest for one in w.attempts()] == [FIRST, MOVED if pull else FIRST]


def test_an_image_that_does_not_exist_costs_one_vm(sqlite_url: str) -> None:
    """The job fails with Docker's words, and no second VM is asked for."""
    words = "docker pull acme/train:9 failed: Error response from daemon: manifest unknown"
    with world(sqlite_url) as w:
        w.submit(image="acme/train:9")
        w.until_up("cg-j1-1")
        w.say("cg-j1-1", ("boot", {}), ("exit", {"reason": "not_started", "error": words, "repeats": True}))
        w.settle(5)
        assert w.job().state is JobState.FAILED
        assert words in w.job().reason
        assert len(w.attempts()) == 1
        assert w.cloud.there() == []


@pytest.mark.parametrize("digest", ["", "sha256:short", 7, None])
def test_an_image_without_a_digest_is_asked_for_by_its_tag(sqlite_url: str, digest: object) -> None:
    """A copy that only the VM knows has none, and nonsense is none."""
    with world(sqlite_url) as w:
        w.submit(image=TAG)
        w.until_up("cg-j1-1")
        w.say("cg-j1-1", ("boot", {}), ("image", {"digest": digest}), ("start", {}))
        w.settle(1)
        lose(w, "cg-j1-1")
        w.until_up("cg-j1-2")
        assert image_of(w, "cg-j1-2") == TAG
