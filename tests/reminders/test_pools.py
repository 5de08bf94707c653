"""The nodes of a pool only stop together: people are asked about all of them at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update
from tests.api import rows
from tests.api.rows import NOW
from tests.reminders import reminder_rows
from tests.reminders.reminded import DAY, HOUR, NEVER_QUIET, nobody, preset

from costguard.access.rules import Rules
from costguard.db import tables
from costguard.db.transaction import Database
from costguard.keepers.reading import recorded_keeper
from costguard.messages import outbox_rows
from costguard.messages.outbox import Composed
from costguard.messages.reminder import ReminderComposer
from costguard.model.action import SendReminder
from costguard.model.delivery.message import ReminderContent
from costguard.model.money import Money, Priced
from costguard.model.reminder import QuietRule, RequestKind, Subject, SubjectKind
from costguard.reminders import gather, slack_accounts
from costguard.reminders.watched import FleetPlan
from costguard.slack.render import render

EVERY = timedelta(hours=4)
ADA = "ada@lab.example"
RULES = Rules({"t4": preset()}, quiet=NEVER_QUIET, channel="#gpu", is_shadow=False)


class Cluster:
    """A database with nodes that run since nine hours, an hour past the limit of their preset."""

    def __init__(self, database: Database) -> None:
        self.database = database
        with database.write() as connection:
            rows.prices(connection)
            rows.project(connection)
            slack_accounts.save(connection, nobody(ADA)[ADA])

    def add(self, name: str, pool: str = "t4", hours: float = 9, idle: float = 0, **given: Any) -> Subject:
        labels = {
            "goog-gke-node": "",
            "goog-k8s-cluster-name": "train",
            "goog-k8s-cluster-location": "us-central1",
            "goog-k8s-node-pool-name": pool,
        }
        group = f"projects/1/zones/us-central1-a/instanceGroupManagers/gke-train-{pool}-1a2b3c4d-grp"
        origin = {"created-by": group, **given.pop("origin", {})} if given.pop("has_group", True) else {}
        keeper = recorded_keeper(labels, origin, "us-central1-a", "").stored()
        began = given.pop("began", NOW - timedelta(hours=hours))
        with self.database.write() as connection:
            vm = rows.instance(connection, name, labels=labels, origin=origin, keeper=keeper, **given)
            life = rows.lifetime(connection, vm, began)
            if idle:
                rows.measured(connection, vm, began, since=NOW - timedelta(hours=idle), good_until=NOW + 30 * DAY)
        return Subject(SubjectKind.RUN, vm, life)

    def nodes(self, count: int, **given: Any) -> list[Subject]:
        return [self.add(f"gke-train-t4-{number:03}", **given) for number in range(count)]

    def plan(self, now: datetime, rules: Rules = RULES) -> FleetPlan:
        with self.database.read() as connection:
            return gather.look_at(connection, rules, now)[0]

    def sends(self, now: datetime, rules: Rules = RULES) -> list[SendReminder]:
        """Looks as a pass does, and has Slack accept what is sent."""
        with self.database.write() as connection:
            plan, fleet = gather.look_at(connection, rules, now)
            sends = [action for action in plan.actions if isinstance(action, SendReminder)]
            gather.intend(connection, sends, {vm.key: vm for vm in fleet}, now)
            accepted = {"status": "accepted", "accepted_at": now, "channel": "C1", "ts": f"{now.timestamp()}"}
            waiting = tables.messages.c.status == "intended"
            connection.execute(update(tables.messages).where(waiting).values(accepted))
        return sends

    def told(self, now: datetime, rules: Rules = RULES) -> ReminderContent:
        """Returns the latest message as it is composed at this moment."""
        with self.database.read() as connection:
            row = connection.execute(select(tables.messages).order_by(tables.messages.c.id.desc()).limit(1)).one()
            (message,) = outbox_rows.reminders_of(connection, [Subject.parse(row.subject)], 1)
            composed = ReminderComposer(rules, "https://guard.example")(connection, message, now)
        assert isinstance(composed, Composed)
        assert isinstance(composed.content, ReminderContent)
        return composed.content

    def remove(self, subject: Subject, at: datetime) -> None:
        """The autoscaler takes a node away."""
        with self.database.write() as connection:
            row = tables.instances.c.id == subject.instance_id
            connection.execute(update(tables.instances).where(row).values(gone_at=at))
            life = tables.lifetimes.c.id == subject.lifetime_id
            connection.execute(update(tables.lifetimes).where(life).values(ended_at=at, end_reason="deleted"))

    def keep(self, subject: Subject, until: datetime, at: datetime) -> None:
        with self.database.write() as connection:
            reminder_rows.keep(connection, subject.instance_id, str(subject), until, at=at)


@pytest.fixture
def cluster(database: Database) -> Cluster:
    return Cluster(database)


def test_ninety_idle_nodes_make_one_reminder_with_the_figures_of_all(cluster: Cluster) -> None:
    """Cluster, pool, cost an hour, how long all have been idle, and the one command."""
    cluster.nodes(89, idle=3)
    cluster.add("gke-train-t4-last", idle=2)
    (send,) = cluster.sends(NOW)
    assert "all 90 VMs of GKE cluster train (node pool t4) are past their limit or idle" in send.reason
    assert "all have been idle for 2 h" in send.reason
    content = cluster.told(NOW)
    assert (content.card.vms, content.card.rate) == (90, Priced(Money.of("47.70")))
    assert content.card.cost.amount == content.card.rate.amount.over(9 * HOUR)
    blocks = str(render(content).blocks)
    assert "90 VMs of GKE cluster train (node pool t4) are still running" in blocks
    assert "You will be reminded again. Costguard stops none of these VMs: their group would recreate each" in blocks
    assert "gke-train-t4-" not in content.card.never_stopped.partition("Instead")[0]  # no node stands for all
    assert "90 x (n1-standard-4, 1 x T4)" in blocks
    assert "`gcloud container clusters resize train --node-pool t4 --num-nodes 0 --location us-central1" in blocks
    assert "https://guard.example/?cluster=train/t4" in blocks
    assert RequestKind.STOP not in [button.kind for button in content.buttons]
    assert content.buttons[0].label == "Keep 4 h (+$190.80)"


def test_the_other_nodes_say_with_whom_they_are_asked_about(cluster: Cluster) -> None:
    """Every decision has its reason."""
    cluster.nodes(3)
    reasons = {one.name: one.reason for one in cluster.plan(NOW).decisions}
    spoken = "it is asked about together with gke-train-t4-000, as GKE cluster train (node pool t4) only stops as a"
    assert [spoken in reason for reason in reasons.values()] == [False, True, True]


def test_the_next_reminder_comes_after_the_usual_time_from_the_same_node(cluster: Cluster) -> None:
    """No other node speaks up, though those were never reminded of."""
    cluster.nodes(5)
    (first,) = cluster.sends(NOW)
    assert cluster.sends(NOW + timedelta(minutes=5)) == []
    (second,) = cluster.sends(NOW + EVERY)
    assert (first.key, first.stage, second.key, second.stage) == (first.key, 0, first.key, 1)


def test_a_pool_whose_nodes_come_and_go_is_reminded_of_no_more_often(cluster: Cluster) -> None:
    """The node that spoke for it goes, and a new one comes: another one speaks when the next reminder is due."""
    nodes = cluster.nodes(3)
    (first,) = cluster.sends(NOW)
    spoke = next(node for node in nodes if node.instance_id == first.subject.instance_id)
    cluster.remove(spoke, NOW + HOUR)
    cluster.add("gke-train-t4-new", began=NOW + HOUR)
    assert cluster.sends(NOW + 2 * HOUR) == []
    (second,) = cluster.sends(NOW + EVERY)
    assert second.subject != first.subject
    assert second.stage == 1


def test_a_pool_that_was_empty_begins_with_its_first_reminder(cluster: Cluster) -> None:
    """All nodes that anybody was reminded of are gone."""
    nodes = cluster.nodes(2)
    assert [send.stage for send in cluster.sends(NOW)] == [0]
    for node in nodes:
        cluster.remove(node, NOW + HOUR)
    cluster.add("gke-train-t4-later", began=NOW + 2 * HOUR)
    cluster.add("gke-train-t4-later-2", began=NOW + 2 * HOUR)
    assert [send.stage for send in cluster.sends(NOW + 12 * HOUR)] == [0]


def test_a_stage_is_never_lost_after_the_node_that_spoke_before_is_gone(cluster: Cluster) -> None:
    """Stages go on from the latest that still counts, so that no message has the key of an earlier one."""
    nodes = [cluster.add("a", hours=30), cluster.add("b", began=NOW + HOUR)]
    (first,) = cluster.sends(NOW)
    assert first.subject == nodes[0]
    cluster.remove(nodes[0], NOW + 2 * HOUR)
    stages = [send.stage for hour in range(10, 31) for send in cluster.sends(NOW + hour * HOUR)]
    assert stages == [0, 1, 2, 3, 4][: len(stages)]
    assert len(stages) >= 4


def test_a_keep_holds_for_the_whole_pool_and_after_its_node_is_gone(cluster: Cluster) -> None:
    """The button is under a message about all of them."""
    cluster.nodes(4)
    (first,) = cluster.sends(NOW)
    cluster.keep(first.subject, NOW + 10 * HOUR, NOW + HOUR)
    assert cluster.sends(NOW + 6 * HOUR) == []
    assert all("kept until" in one.reason for one in cluster.plan(NOW + 6 * HOUR).decisions)
    cluster.remove(first.subject, NOW + 7 * HOUR)
    assert cluster.sends(NOW + 8 * HOUR) == []
    (again,) = cluster.sends(NOW + 11 * HOUR)
    assert again.cycle == 1


def test_a_pool_of_which_some_are_due_says_how_many(cluster: Cluster) -> None:
    """It is due as soon as one of its VMs is."""
    cluster.nodes(2)
    for number in range(8):
        cluster.add(f"gke-train-t4-young-{number}", hours=1)
    (send,) = cluster.sends(NOW)
    assert "2 of 10 VMs of GKE cluster train (node pool t4)" in send.reason
    assert cluster.told(NOW).card.vms == 10


def test_each_pool_has_its_own_reminder_and_so_has_a_vm_that_labels_alone_place_there(cluster: Cluster) -> None:
    """A label that a person set by hand hides no VM behind a cluster."""
    cluster.nodes(3)
    for number in range(2):
        cluster.add(f"gke-train-a100-{number}", pool="a100")
    cluster.add("ada-by-hand", has_group=False)
    names = {one.key: one.name for one in cluster.plan(NOW).decisions}
    assert sorted(names[send.key] for send in cluster.sends(NOW)) == [
        "ada-by-hand",
        "gke-train-a100-0",
        "gke-train-t4-000",
    ]


def test_a_node_in_a_zone_that_could_not_be_read_does_not_speak(cluster: Cluster) -> None:
    """Nothing is known of it; another node speaks."""
    cluster.add("a-unread", zone="us-central1-f", hours=20)
    cluster.add("b-read")
    with cluster.database.write() as connection:
        unread = [{"scope": "us-central1-f", "code": "UNREACHABLE", "reason": "down"}]
        connection.execute(update(tables.projects).values(unread=unread))
    plan = cluster.plan(NOW)
    assert [plan.decisions[0].is_known, plan.decisions[1].is_known] == [False, True]
    assert [type(action) for action in plan.actions] == [SendReminder]


def test_a_pool_that_costs_a_lot_together_is_reminded_of_at_night(cluster: Cluster) -> None:
    """Ninety nodes of $0.53 are dear, one is not."""
    loud = QuietRule(starts=NEVER_QUIET.starts, days=frozenset(range(7)), unless_above=Money.of(10))
    rules = Rules({"t4": preset()}, quiet=loud, channel="#gpu", is_shadow=False)
    cluster.nodes(5)
    assert cluster.sends(NOW, rules) == []
    for number in range(30):
        cluster.add(f"gke-train-t4-more-{number}")
    assert len(cluster.sends(NOW, rules)) == 1
    assert cluster.told(NOW, rules).card.vms == 35
