"""The best checkpoint stays at the location: in every history of saves, evaluations, lost VMs and uploads cut off."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from tests.agent.fake_guard import Event, FakeGuard
from tests.agent.s3_server import S3Server
from tests.agent.scripts import WAIT
from tests.agent.test_travel import SAVES, _remote, _train, has_rclone, s3
from tests.agent.torn import KINDS, WHERE, Agent, Bucket
from tests.agent.vm import Vm

from costguard_vm.agent.transfers.remote import RemoteCheckpoints

__all__ = ["has_rclone", "s3"]  # fixtures


class Scored(Agent):
    """An agent whose job has a metric of which lower is better."""

    def __init__(self, bucket: Bucket, keep: int) -> None:
        super().__init__(KINDS["dcp"] if "dcp" in KINDS else next(iter(KINDS.values())), bucket, keep)
        self.remote = RemoteCheckpoints(WHERE, self.kind.look_for, keep, "lower")
        self.remote.read_in(bucket)
        self.remote.clean(bucket)

    def held(self) -> set[int]:
        """The steps of whole checkpoints at the location."""
        again = RemoteCheckpoints(WHERE, self.kind.look_for, 0)
        return {int(one.step) for one in again.read_in(self.bucket) if one.step is not None}


@pytest.mark.parametrize("keep", [1, 2, 3])
@pytest.mark.parametrize("seed", range(15))
def test_best_is_there_at_every_moment(seed: int, keep: int) -> None:
    """Attempts of random lengths, each by an agent that knows nothing but what lies in the bucket."""
    chance, bucket = random.Random(100 * keep + seed), Bucket(seed)
    values: dict[int, float] = {}
    step = 0
    for _ in range(4):
        agent = Scored(bucket, keep)
        for _ in range(chance.randrange(2, 7)):
            step += 100
            values[step] = round(chance.uniform(1, 9), 3)
            agent.remote.evaluations.add(step, values[step])
            agent.save(step)
            best = min(values, key=values.__getitem__)
            assert best in agent.held(), (best, agent.held())
            assert step in agent.held()
            assert len(agent.held()) <= keep + 1
            kept = agent.remote.best(bucket)
            assert kept is not None
            assert (kept.step, kept.value) == (best, values[best])


def test_value_that_comes_after_its_save_counts() -> None:
    """Many trainings evaluate once they have saved, and the next save is the one that may delete."""
    bucket = Bucket(1)
    agent = Scored(bucket, 1)
    agent.save(100)
    agent.remote.evaluations.add(100, 1.0)
    agent.remote.best(bucket)
    for step in (200, 300, 400):
        agent.remote.evaluations.add(step, float(step))
        agent.save(step)
    assert agent.held() == {100, 400}


def test_note_is_written_before_anything_is_deleted() -> None:
    """A VM that ends between the two leaves a note by which the next agent spares the best."""
    bucket = Bucket(1)
    agent = Scored(bucket, 1)
    for step, value in ((100, 1.0), (200, 2.0)):
        agent.remote.evaluations.add(step, value)
        agent.save(step)
    begun = len(bucket.moments)
    agent.remote.evaluations.add(300, 3.0)
    agent.save(300)
    for moment in bucket.moments[begun:]:
        again = Bucket(2, moment)
        follower = Scored(again, 1)
        follower.save(900)
        assert 100 in follower.held()


def test_without_a_metric_only_the_newest_stay() -> None:
    """Nothing is noted, and nothing more is kept than before."""
    bucket = Bucket(1)
    agent = Agent(next(iter(KINDS.values())), bucket, 1)
    for step in (100, 200, 300):
        agent.remote.evaluations.add(step, float(step))
        agent.save(step)
    assert agent.remote.best(bucket) is None
    assert not [path for path in bucket.files if path.endswith("best.json")]


# Evaluates after each save, and goes on at a word.
PRINTS = SAVES.replace("import os", WAIT + "import os").replace(
    "    save(name)\n",
    "    save(name)\n    step = int(name.split('-')[1])\n"
    "    print(f'step {step} val_loss {1 if step == 20 else step}', flush=True)\n    wait(f'go-{step}')\n",
)


def _is_of(name: str, saved: Event) -> bool:
    return bool(saved["name"] == name)


def let_go_on(vm: Vm, guard: FakeGuard, *steps: int) -> None:
    """Lets the command go on after each of these saves, once it is in the bucket, and step 20 is known as the best."""
    for step in steps:
        guard.wait_for("saved", partial(_is_of, f"step-{step}"))
        if step == 20:
            guard.wait_for("best", lambda event: event["of_step"] == 20)
        (vm.work / f"go-{step}").touch()


def test_best_of_a_real_run_stays_in_the_bucket(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """The agent reads the metric in the output, spares the checkpoint, and reports it."""
    _train(
        vm,
        s3,
        "step-10 step-20 step-30 step-40 step-50 step-60",
        PRINTS,
        metric_pattern=r"val_loss (\S+)",
        metric_better="lower",
        heartbeat_s=0.3,
        checkpoint={"keep": "2"},
    )
    vm.boot()
    let_go_on(vm, guard, 10, 20, 30, 40, 50, 60)
    assert guard.wait_for("exit")["code"] == 0
    assert {name.split("/")[0] for name in _remote(s3) if name.startswith("step")} == {"step-20", "step-50", "step-60"}
    reports: list[dict[str, Any]] = [event for event in guard.events if event["kind"] == "best"]
    assert reports[-1]["place"] == "s3://lab/run/step-20"
    assert (reports[-1]["of_step"], reports[-1]["value"]) == (20, "1.0")
