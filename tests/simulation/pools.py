"""Judges reminders about VMs that only stop together, from what Slack and Google recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tests.simulation.plan import DAY

from costguard_sandbox.gce.vm import VM

if TYPE_CHECKING:
    from tests.simulation.story import Post, Story, Topic

POOL_KEYS = "reminder/pool/"
_LONG_ENOUGH = 5 * DAY  # the longest time between two reminders, with a weekend and a holiday of quiet


def pool_of(vm: VM) -> str:
    """Names the pool of a VM: a node pool, or a whole job of Batch or Dataflow; "" for any other VM."""
    labels, region = vm.given.get("labels") or {}, vm.zone.rpartition("-")[0]
    if labels.get("goog-k8s-cluster-name") and labels.get("goog-k8s-node-pool-name"):
        return f"gke/{labels['goog-k8s-cluster-name']}/{labels['goog-k8s-node-pool-name']}"
    if labels.get("batch-job-uid"):
        return f"batch/{region}/{labels.get('batch-job-id', '')}"
    if labels.get("goog-dataflow-job-id"):
        return f"dataflow/{region}/{labels['goog-dataflow-job-id']}"
    return ""


def judge(story: Story, topics: Collection[Topic], wrong_clock: timedelta) -> list[str]:
    """Returns what is wrong: a member that is asked about by itself, two reminders too soon one after the other, or
    none for days about a pool of which a VM was due all the time.
    """
    by_pool: dict[str, list[Topic]] = defaultdict(list)
    for topic in topics:
        by_pool[pool_of(topic.vm)].append(topic)
    wrong = []
    for pool, members in by_pool.items():
        posts = sorted((post for topic in members for post in topic.posts), key=lambda post: post.at)
        wrong += [f"{post.key} is about one VM of {pool}" for post in posts if not post.key.startswith(POOL_KEYS)]
        wrong += _too_soon(pool, members, posts, wrong_clock)
        wrong += _left_out(story, pool, members, posts)
    return wrong


def _too_soon(pool: str, members: Collection[Topic], posts: Collection[Post], wrong_clock: timedelta) -> list[str]:
    """Reminders of one cycle keep their distance, whichever VM speaks, while any VM of before is still there."""
    wrong = []
    stages: dict[tuple[int, int], datetime] = {}
    last: tuple[int, datetime] | None = None
    for post in posts:
        if (post.cycle, post.stage) in stages and any(
            topic.began <= stages[post.cycle, post.stage] and not topic.is_over(post.at) for topic in members
        ):
            continue  # to another of its recipients
        stages[post.cycle, post.stage] = post.at
        if last is not None and last[0] == post.cycle:
            between = [topic for topic in members if topic.began <= last[1] and not topic.is_over(post.at)]
            every = min((topic.preset(last[1]).reminders.every for topic in members), default=timedelta())
            if between and post.at - last[1] < every - wrong_clock:
                wrong.append(f"{post.key} of {pool} came {post.at - last[1]} after the one before")
        last = post.cycle, post.at
    return wrong


def _left_out(story: Story, pool: str, members: Collection[Topic], posts: Collection[Post]) -> list[str]:
    """No pool is silent for days while the guard works and one of its VMs is past its limit, kept by nobody."""
    wrong = []
    good = [step for step in story.life.steps if not step.bad]
    for topic in members:
        limit = topic.preset(topic.began).limit
        assert limit is not None
        since = topic.limit_from + limit
        for step in good:
            if topic.is_over(step.ended) or step.began < since + _LONG_ENOUGH:
                continue
            begin = step.ended - _LONG_ENOUGH
            trouble = any(one.bad for one in story.life.steps if one.ended >= begin and one.began <= step.ended)
            kept = any(
                answer.at >= begin or (answer.until is not None and answer.until >= begin)
                for one in members
                for answer in one.answers
            )
            if not trouble and not kept and not any(begin <= post.at <= step.ended for post in posts):
                wrong.append(f"nobody was reminded of {pool} from {begin} to {step.ended}, and {topic.vm.name} was due")
                break
    return wrong
