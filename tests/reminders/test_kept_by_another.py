"""A VM of a managed instance group, GKE, Dataproc, Batch or Dataflow is reminded of, and stopped by nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import seen
from tests.reminders.last_check_setup import Judged, judged_at
from tests.reminders.reminded import DUE, HOUR, asked, planned, rules, sent, stopping, vm

from costguard.db.transaction import Database
from costguard.ledger import fleet_rows
from costguard.model.action import RefuseRequest, SendReminder, StopInstance, StopOutcome
from costguard.model.instance import InstanceKey
from costguard.model.keeper import KeeperKind
from costguard.model.reminder import RequestKind
from costguard.reminders.decide import decide
from costguard.reminders.not_stopped import StopBlocker, why_not_stopped
from costguard.reminders.stop_case import ByTheRules

GROUP = {"created-by": "projects/1/zones/us-central1-a/instanceGroupManagers/trainers"}
NODE = {"goog-gke-node": "", "goog-k8s-cluster-name": "train", "goog-k8s-node-pool-name": "t4"}
STOPS = rules(stopping(stop_after=1))
WARNED = (sent(0, DUE),)
MANY = [
    ({}, GROUP, "managed instance group trainers"),
    (NODE, GROUP, "GKE cluster train (node pool t4)"),
    ({"goog-dataproc-cluster-name": "etl"}, {}, "Dataproc cluster etl"),
    ({"batch-job-uid": "b-1", "batch-job-id": "b"}, {}, "Batch job b"),
    ({"goog-dataflow-job-id": "d"}, {}, "Dataflow job d"),
    ({}, {"tpu.googleapis.com": "node"}, "Cloud TPU"),
]
of_each = pytest.mark.parametrize(("labels", "origin", "whose"), MANY)


@pytest.fixture
def judged(sqlite_database: Database) -> Judged:
    return judged_at(sqlite_database)


def test_the_same_vm_without_a_keeper_would_be_stopped() -> None:
    """The tests below rest on the keeper alone."""
    plan = planned(vm(sent=WARNED), DUE + 2 * HOUR, STOPS)
    assert [type(action) for action in plan.actions] == [StopInstance]


@of_each
def test_no_rule_stops_it_and_its_reminders_go_on(labels: dict[str, str], origin: dict[str, str], whose: str) -> None:
    """The decision says whose it is."""
    plan = planned(vm(labels=labels, origin=origin, sent=WARNED), DUE + 5 * HOUR, STOPS)
    assert [type(action) for action in plan.actions] == [SendReminder]
    (decision,) = plan.decisions
    assert f"it belongs to {whose}, so it is never stopped; it is only reminded of" in decision.reason
    assert decision.stop_at is None


@of_each
def test_nobody_may_ask_for_its_stop_not_even_an_admin(
    labels: dict[str, str], origin: dict[str, str], whose: str
) -> None:
    """The refusal names the command."""
    request = asked(RequestKind.STOP, by="root@example.com")
    plan = planned(vm(labels=labels, origin=origin, requests=(request,)), DUE + HOUR, STOPS)
    refused = [action for action in plan.actions if isinstance(action, RefuseRequest)]
    assert [action.request for action in refused] == [request]
    belongs = "is a TPU node" if whose == "Cloud TPU" else f"belongs to {whose}"
    assert f"debug-ana {belongs}, so Costguard does not stop it" in refused[0].reason
    assert "Instead, stop" in refused[0].reason
    assert "`gcloud " in refused[0].reason


ODD = {"created-by": "ana@example.com"}


def test_no_rule_stops_a_vm_whose_keeper_is_not_known_and_a_user_may() -> None:
    """`created-by` is no path of a group: perhaps a user's own word, perhaps what this version cannot read."""
    plan = planned(vm(origin=ODD, sent=WARNED), DUE + 5 * HOUR, STOPS)
    assert [type(action) for action in plan.actions] == [SendReminder]
    (decision,) = plan.decisions
    assert (
        "who keeps it is not known, so no rule stops it: Its metadata item created-by is not the path"
        in decision.reason
    )
    assert decision.stop_at is None
    asked_for = planned(vm(origin=ODD, requests=(asked(RequestKind.STOP),)), DUE + HOUR, STOPS)
    assert [type(action) for action in asked_for.actions] == [StopInstance]
    answer = why_not_stopped(vm(origin=ODD), STOPS, {}, None, DUE)
    assert answer.cause is StopBlocker.KEEPER
    assert "not the path of an instance group" in answer.sentence(DUE)


def test_a_stop_by_rule_ends_at_the_last_check_where_the_keeper_is_not_known(judged: Judged) -> None:
    """The look right before the stop shows it; Google is not asked."""
    decided = judged.decided()
    judged.google.vms[decided.key.project, decided.zone, decided.name].origin = dict(ODD)
    outcome = judged.carry_out(decided)
    assert (outcome.result, judged.google.calls) == ("not_needed", [])
    assert "who keeps it is not known" in outcome.text


ALLOWED = rules(stopping(stop_after=1), stop_through=frozenset({KeeperKind.GROUP}))


def test_a_rule_stops_a_groups_vm_where_the_settings_allow_it_and_no_node() -> None:
    """A node of GKE has a group too, and is left alone under the same settings."""
    plan = planned(vm(origin=GROUP, sent=WARNED), DUE + 5 * HOUR, ALLOWED)
    assert [type(action) for action in plan.actions] == [StopInstance]
    node = planned(vm(labels=NODE, origin=GROUP, sent=WARNED), DUE + 5 * HOUR, ALLOWED)
    assert StopInstance not in [type(action) for action in node.actions]


def test_a_person_may_stop_a_groups_vm_where_the_settings_allow_it() -> None:
    """The group's own words and the setting are gone with the refusal."""
    request = asked(RequestKind.STOP)
    plan = planned(vm(origin=GROUP, requests=(request,)), DUE + HOUR, ALLOWED)
    assert [type(action) for action in plan.actions] == [StopInstance]


def test_the_reason_that_a_groups_vm_is_not_stopped_names_the_setting_or_its_rule() -> None:
    """Allowed, it is a VM like any other; else the sentence says what would allow it."""
    refused = why_not_stopped(vm(origin=GROUP), STOPS, {}, None, DUE)
    assert refused.cause is StopBlocker.KEEPER
    assert 'enforcement.stop_through = ["group"]' in refused.sentence(DUE)
    allowed = why_not_stopped(vm(origin=GROUP), ALLOWED, {}, None, DUE)
    assert allowed.cause is not StopBlocker.KEEPER


@pytest.mark.parametrize("by_rule", [True, False], ids=["rule", "request"])
def test_a_groups_vm_is_stopped_by_its_group(judged: Judged, by_rule: bool) -> None:
    """The executor asks the group alone, and the stop is settled like any other when the ledger sees it stopped."""
    judged.rules = replace(judged.rules, stop_through=frozenset({KeeperKind.GROUP}))
    action = judged.decided() if by_rule else judged.scene.stop_by_ana(judged.subject)
    judged.google.vms[action.key.project, action.zone, action.name].origin = dict(GROUP)
    check = {"still_due": ByTheRules(judged.rules)} if by_rule else {}
    executor = judged.scene.executor(through=judged.rules.stop_through, **check)
    (outcome,) = executor.carry_out([action])
    assert outcome.result == "asked"
    assert [(verb, gce_id) for verb, gce_id, _ in judged.google.calls] == [("stop_kept group", "1001")]
    judged.scene.come_to_rest()
    executor.settle()
    assert judged.scene.stop(judged.subject).outcome is StopOutcome.DONE


def test_it_can_still_be_kept_and_claimed() -> None:
    """Stops alone are refused."""
    for kind in (RequestKind.KEEP, RequestKind.DISOWN):
        plan = planned(vm(labels=NODE, requests=(asked(kind, hours=4),)), DUE + HOUR, STOPS)
        assert not [action for action in plan.actions if isinstance(action, RefuseRequest)], kind


def test_the_reason_that_it_is_not_stopped_names_the_command() -> None:
    """The first line of its page and of `costguard show`."""
    answer = why_not_stopped(vm(labels=NODE, origin=GROUP), STOPS, {}, None, DUE)
    assert answer.cause is StopBlocker.KEEPER
    assert "gcloud container clusters resize train --node-pool t4" in answer.sentence(DUE)


@of_each
def test_a_stop_that_was_decided_before_the_ledger_knew_is_not_carried_out(
    judged: Judged, labels: dict[str, str], origin: dict[str, str], whose: str
) -> None:
    """The look right before the stop shows whose the VM is."""
    decided = judged.decided()
    judged.google.vms[decided.key.project, decided.zone, decided.name].labels = dict(labels)
    judged.google.vms[decided.key.project, decided.zone, decided.name].origin = dict(origin)
    outcome = judged.carry_out(decided)
    assert (outcome.result, judged.google.calls) == ("not_needed", [])
    assert f"it belongs to {whose}" in outcome.text


def test_a_check_that_passes_it_is_stopped_at_the_last_point(judged: Judged) -> None:
    """The call itself is refused, whatever decided on it, and the stop fails for good, with the reason."""
    subject = judged.subject
    action = judged.scene.stop_by_ana(subject)
    judged.google.vms[action.key.project, action.zone, action.name].origin = dict(GROUP)
    (outcome,) = judged.scene.executor().carry_out([action])
    assert (outcome.result, judged.google.calls) == ("failed", [])
    assert "belongs to managed instance group trainers" in outcome.text


def test_the_ledger_keeps_what_says_whose_it_is(judged: Judged) -> None:
    """Labels and the few metadata items."""
    key = InstanceKey(judged.decided().key.project, "1009")
    judged.scene.look(seen(key=key, name="node-1", labels=NODE, origin=GROUP), read="12:01")
    with judged.scene.database.read() as connection:
        row = fleet_rows.instance_id(connection, key)
        assert row is not None
        (stored,) = fleet_rows.known(connection, [row])
    assert stored.kept.group == GROUP["created-by"]
    assert stored.kept.whose == "GKE cluster train (node pool t4)"


def test_rules_that_stop_leave_it_alone_in_a_whole_pass(judged: Judged) -> None:
    """The whole pass goes from the ledger's rows to the plan."""
    key = InstanceKey(judged.decided().key.project, "1001")
    judged.scene.look(seen(key=key, name="vm-1", origin=GROUP, fingerprint="grouped"), read="12:01")
    with pytest.raises(StopIteration):
        judged.decided()


def test_a_restart_of_decisions_needs_nothing_but_the_row() -> None:
    """The decision says it as well without requests and history, before anything is due for a stop."""
    (decision,) = decide([vm(labels=NODE, sent=WARNED)], STOPS, {}, DUE).decisions
    assert "never stopped" in decision.reason
