"""Scenario files: what they contain, what they make happen, and the errors of invalid ones."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.sandbox.gce.test_flex_start import flex
from tests.sandbox.vms import HOUR, MINUTE, START

from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.meter import bill
from costguard_sandbox.gce.vm import Load, Status
from costguard_sandbox.scenarios.keys import ScenarioError
from costguard_sandbox.scenarios.scenario import build, load, read, shipped
from costguard_sandbox.slack.clicks import PlannedClick
from costguard_sandbox.world import World

_FLEET = """
projects = ["acme-training"]
[[instance]]
project = "acme-training"
name = "t4"
zone = "us-central1-a"
machine_type = "n1-standard-4"
gpu = "nvidia-tesla-t4"
owner = "ana"
creator = "ben@example.com"
started = "3d ago"
"""


def play(text: str) -> World:
    return build(read(text, Path("test.toml")), ManualClock(START))


def test_the_fleet_has_lived_before_the_start() -> None:
    """Started three days ago means billed for three days, by a creator whom the operation names."""
    world = play(_FLEET)
    vm = world.instance("acme-training", "t4")
    assert (vm.status, vm.given["labels"]) == (Status.RUNNING, {"owner": "ana"})
    assert vm.last_start is not None
    assert timedelta(0) < vm.last_start - (START - timedelta(days=3)) < MINUTE
    (insert,) = world.operations.of("acme-training")
    assert insert.user == "ben@example.com"
    assert bill(vm, world.prices, world.now).resources["gpu:nvidia-tesla-t4"].seconds > 259_000


def test_a_vm_can_be_stopped_before_the_start() -> None:
    """The disk of a stopped VM bills on."""
    world = play(_FLEET + 'stopped = "1d ago"\n')
    vm = world.instance("acme-training", "t4")
    assert vm.status is Status.TERMINATED
    resources = bill(vm, world.prices, world.now).resources
    assert resources["disk:pd-balanced"].seconds == 3 * 86_400
    assert abs(resources["n1:core"].seconds - 2 * 86_400) < 60


def test_events_happen_at_their_moments() -> None:
    """Verbs, strikes, inserts, faults that pass and prices that change."""
    world = play(
        _FLEET
        + """
[[event]]
at = "10m"
do = "guest-shutdown"
project = "acme-training"
name = "t4"
[[event]]
at = "20m"
do = "start"
project = "acme-training"
name = "t4"
user = "cleo@example.com"
[[event]]
at = "30m"
do = "fault"
fault = { kind = "unreachable_zone", zone = "us-central1-a" }
lasts = "5m"
[[event]]
at = "40m"
do = "price"
price = { resource = "n1:core", region = "us-central1", dollars = "0.05" }
[[event]]
at = "50m"
do = "insert"
[event.instance]
project = "acme-training"
name = "new"
zone = "us-central1-a"
machine_type = "n1-standard-4"
spot = true
"""
    )
    vm = world.instance("acme-training", "t4")
    world.advance(15 * MINUTE)
    seen = [vm.status]
    assert vm.runs[0].ended == START + 10 * MINUTE
    world.advance(10 * MINUTE)
    assert [*seen, vm.status] == [Status.TERMINATED, Status.RUNNING]
    world.advance(7 * MINUTE)
    assert world.faults.unreachable_zones("acme-training") == {"us-central1-a"}
    world.advance(30 * MINUTE)
    assert world.faults.listed() == []
    assert world.prices.rate("n1:core", "us-central1", False, world.now)[0] == 50_000_000
    assert world.instance("acme-training", "new").is_spot


@pytest.mark.parametrize("ends", [True, False])
def test_flex_start_requests_wait_as_the_scenario_says(ends: bool) -> None:
    """A fault says when a request is granted, and a key whether its operation ends before."""
    event = (
        '[[event]]\nat = "1m"\ndo = "fault"\nfault = { kind = "flex_start", never = true, gpu = "nvidia-tesla-a100" }'
    )
    world = play(f"{'queued_inserts_end = true' if ends else ''}\n{_FLEET}\n{event}\n")
    world.advance(2 * MINUTE)
    operation = world.insert("acme-training", "us-central1-a", flex())
    world.advance(HOUR)
    assert world.instance("acme-training", "vm").status is Status.PENDING
    assert operation.is_done is ends


def test_an_event_whose_vm_is_gone_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """A user may delete a VM before its event: that is logged, and the rest goes on."""
    world = play(_FLEET + '[[event]]\nat = "1h"\ndo = "stop"\nproject = "acme-training"\nname = "t4"\n')
    world.delete("acme-training", "t4")
    world.advance(2 * HOUR)
    assert "stop t4 did not happen" in caplog.text


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_scenario_plays_to_its_end(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """No event of a scenario fails, and all that it makes can be billed."""
    world = build(load(name), ManualClock(START))
    world.advance(timedelta(days=2))
    assert caplog.text == ""
    assert [vm.name for vm in world.every_vm() if bill(vm, world.prices, world.now).unpriced] == []


def test_the_demo_shows_the_products_story() -> None:
    """A forgotten T4, a busy A100, several GPUs, a VM nobody claims, and a Spot VM that is preempted."""
    world = build(load("demo"), ManualClock(START))
    vms = {vm.name: vm for project in world.projects for vm in world.instances(project)}
    assert vms["debug-ana"].shape.gpu_type == "nvidia-tesla-t4"
    assert world.now - vms["debug-ana"].created_at > timedelta(days=3)
    assert vms["train-vision-ben"].shape.gpu_type == "nvidia-tesla-a100"
    assert vms["finetune-cleo"].shape.gpu_count == 4
    assert [vm.name for vm in vms.values() if not vm.given["labels"]] == ["instance-20261118-041207"]
    world.advance(2 * HOUR + 5 * MINUTE)
    assert vms["sweep-ben-1"].runs[0].preempted
    world.advance(HOUR)
    assert vms["sweep-ben-1"].status is Status.RUNNING


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('zone = "us-central1-a"', 'zone = "mars-1a"', "instance[1].zone: expected a zone of Google's"),
        (
            'machine_type = "n1-standard-4"',
            'machine_type = "a2-highgpu-1g"',
            "instance[1].machine_type: expected a VM that Compute",
        ),
        ('started = "3d ago"', 'started = "3 days"', "instance[1].started: expected a time such as '3d ago'"),
        ('started = "3d ago"', "", "instance[1].started: expected a time such as '3d ago' or '2h30m ago', but it is"),
        ('owner = "ana"', 'ower = "ana"', "instance[1].ower: expected no such key; known keys are"),
        ('owner = "ana"', "owner = 7", "instance[1].owner: expected a text, not 7"),
        ('project = "acme-training"', 'project = "other"', "instance[1].project: expected one of acme-training"),
        ('projects = ["acme-training"]', 'projects = ["X"]', "projects: expected project ids"),
        ('projects = ["acme-training"]', "projects = []", "projects: expected at least one"),
        ("[[instance]]", "[instance]", "instance: expected tables written as [[instance]]"),
        ("[[instance]]", "[[instance", "is not TOML"),
    ],
)
def test_an_invalid_key_names_file_key_and_expected_value(old: str, new: str, text: str) -> None:
    """The error comes before anything is played."""
    with pytest.raises(ScenarioError) as error:
        play(_FLEET.replace(old, new))
    assert str(error.value).startswith("test.toml: ")
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ('at = "1m"\ndo = "dance"', "event[1].do: expected one of start, stop"),
        ('at = "soon"\ndo = "stop"', "event[1].at: expected a time such as '90s'"),
        ('at = "1m"\ndo = "stop"\nproject = "acme-training"\nname = "x"', "event[1].name: expected the name of an"),
        ('at = "1m"\ndo = "fault"\nfault = { kind = "meteor" }', "event[1].fault: expected a valid fault"),
        (
            'at = "1m"\ndo = "price"\nprice = { resource = "n9:core", region = "us-central1", dollars = "1" }',
            "event[1].price.resource: expected something that has a price",
        ),
        (
            'at = "1m"\ndo = "price"\nprice = { resource = "n1:core", region = "us-central1", dollars = "-1" }',
            "event[1].price.dollars: expected an amount above 0",
        ),
        ('at = "1m"\ndo = "click"\nuser = "zoe"\nbutton = "keep"\nvm = "t4"', "event[1].user: expected one of ana"),
        ('at = "1m"\ndo = "click"\nuser = "ana"\nbutton = "keep"\nvm = "x"', "event[1].vm: expected the name"),
        ('at = "1m"\ndo = "click"\nuser = "ana"\nvm = "t4"', "event[1].button: expected a text, but it is missing"),
    ],
)
def test_an_invalid_event_is_refused_at_load(event: str, text: str) -> None:
    """A scenario that would fail in its third hour fails at the start."""
    with pytest.raises(ScenarioError) as error:
        play(f"{_FLEET}[[event]]\n{event}\n")
    assert text in str(error.value)


def test_a_missing_file_names_the_scenarios_that_ship() -> None:
    """A typing error is seen as one."""
    with pytest.raises(ScenarioError, match=r"one of: demo, empty"):
        load("dmeo")


def test_a_load_is_set_and_changes() -> None:
    """Busy unless the file says otherwise, until an event says so; a word that is no load is refused."""
    event = '[[event]]\nat = "10m"\ndo = "load"\nload = "no-agent"\nproject = "acme-training"\nname = "t4"\n'
    world = play(f'{_FLEET}load = "idle"\n{event}')
    vm = world.instance("acme-training", "t4")
    assert vm.load_at(world.now) is Load.IDLE
    world.advance(HOUR)
    assert vm.load_at(world.now) is Load.NO_AGENT
    with pytest.raises(ScenarioError, match="busy, idle, no-agent"):
        play(f'{_FLEET}load = "lazy"\n')


def test_a_scenario_plans_a_click_for_a_moment() -> None:
    """The wish comes at its time and stands as long as it is said to; the message may come later."""
    press = '[[event]]\nat = "1h"\ndo = "click"\nuser = "ana"\nbutton = "keep"\nvm = "t4"\nwithin = "30m"\n'
    world = play(_FLEET + press)
    world.advance(HOUR - MINUTE)
    waiting = [list(world.slack.clicks.waiting)]
    world.advance(2 * MINUTE)
    waiting.append(list(world.slack.clicks.waiting))
    assert waiting == [[], [PlannedClick("ana", "keep", "t4", START + HOUR + 30 * MINUTE)]]


_BILL = (
    _FLEET.replace('"3d ago"', '"8d ago"') + '[bill]\ntable = "acme-billing.billing.export"\nerrors = ["unknown_vm"]\n'
)


def test_a_bill_has_what_the_meter_counted_and_what_was_planted() -> None:
    """Rows of the VM and of one that there never was, on a day whose rows have all come; more of them a day later."""
    world = play(_BILL)
    table = world.bigquery.tables["acme-billing.billing.export"]
    (vm,) = world.every_vm()
    rows = [row for _, row in table.rows()]
    strange = [row for row in rows if not row["resource"]["global_name"].endswith(f"/{vm.id}")]
    on_vms = [row for row in strange if "/instances/" in row["resource"]["global_name"]]
    (day,) = {
        row["invoice"]["month"] + row["usage_start_time"][8:10]
        for row in on_vms
        if row["usage_start_time"][11:13] == "12"
    }
    assert day == f"{START - timedelta(hours=84) - timedelta(days=1):%Y%m%d}"
    assert len({row["resource"]["global_name"] for row in on_vms}) == 1
    world.advance(timedelta(days=1))
    assert len(table.rows()) > len(rows)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (('"unknown_vm"', '"no_vm"'), "bill.errors: expected some of missing_vm"),
        (("acme-billing.", ""), "PROJECT.DATASET.TABLE"),
    ],
)
def test_a_wrong_bill_is_refused(change: tuple[str, str], wrong: str) -> None:
    """The error names the key and what it takes."""
    with pytest.raises(ScenarioError, match=wrong):
        read(_BILL.replace(*change), Path("test.toml"))
