"""The agent publishes one complete checkpoint as a job's result, whole or not at all, wherever it or the VM ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.published import MemoryStore, VmGone, marker, published
from tests.agent.s3_server import S3Server
from tests.agent.scripts import WAIT
from tests.agent.test_best import PRINTS, let_go_on
from tests.agent.test_publish import Held
from tests.agent.test_travel import SAVES, _train, has_rclone, s3
from tests.agent.torn import KINDS, WHERE, Kind
from tests.agent.vm import Vm

from costguard_vm.agent.settings import AttemptSettings, read_settings
from costguard_vm.agent.transfers.phases import Phases
from costguard_vm.agent.transfers.preparation import Stage, StageFolders
from costguard_vm.agent.transfers.remote import RemoteCheckpoints
from costguard_vm.agent.transfers.result import check_result, publish_result

__all__ = ["has_rclone", "s3"]  # fixtures

TO = "s3://acme-models/bert"
PLAIN = KINDS["marker"]


def location(kind: Kind, values: Mapping[int, float | None]) -> dict[str, bytes]:
    """Returns whole checkpoints of these steps, and the note of their values, as the agent leaves them."""
    objects: dict[str, bytes] = {}
    noted: dict[str, list[float]] = {}
    for step, value in values.items():
        files = dict(kind.write(step))
        objects.update({f"{WHERE}/{name}": body for name, body in files.items()})
        if value is not None:
            noted[_name(kind, step)] = [step, value]
    note = {"better": "lower", "values": noted}
    return {**objects, **({f"{WHERE}/.costguard/best.json": json.dumps(note).encode()} if noted else {})}


def _name(kind: Kind, step: int) -> str:
    store = MemoryStore({f"{WHERE}/{name}": body for name, body in kind.write(step)})
    return RemoteCheckpoints(WHERE, kind.look_for, 0).read_in(store)[0].name


def stage(folder: Path, store: MemoryStore, kind: Kind = PLAIN, attempt: int = 1, **more: Any) -> Stage:
    look_for = kind.look_for
    plan = {"location": WHERE, "pattern": look_for.pattern, "marker": look_for.marker}
    settings = AttemptSettings(
        attempt=f"cg-j7k2m9q4-{attempt}",
        job="j7k2m9q4",
        checkpoint={**plan, "framework": look_for.framework.value if look_for.framework else ""},
        **{"publish": {"to": TO, "which": "best"}, "metric_pattern": r"val_loss (\S+)", **more},
    )
    held: Any = Held(store)
    folders = StageFolders(str(folder), str(folder))
    return Stage(settings, 1, folders, lambda _: None, held, lambda *_, **__: None, Phases())


def publish(at_work: Stage) -> dict[str, Any]:
    ended: dict[str, Any] = {"reason": "exited", "code": 0}
    publish_result(at_work, ended)
    return ended


@pytest.mark.parametrize("name", sorted(KINDS))
def test_best_of_each_layout_is_published_whole_wherever_the_agent_ends(tmp_path: Path, name: str) -> None:
    """A reader sees all of it or nothing between every two objects, and the agent that comes back ends it."""
    kind = KINDS[name]
    if kind.is_mute:
        pytest.skip("names alone do not tell that it is whole")
    begun = location(kind, {100: 2.0, 200: 1.0, 300: 3.0})
    whole = MemoryStore(dict(begun))
    publish(stage(tmp_path, whole, kind))
    files = published(whole.objects, TO)
    assert files
    steps = 0
    while True:
        store = MemoryStore(dict(begun), left=steps)
        store.on_step = lambda store=store: _sees(store, files)  # type: ignore[misc]
        try:
            publish(stage(tmp_path, store, kind))
            is_done = True
        except VmGone:
            is_done = False
        again = MemoryStore(store.objects)
        check_result(stage(tmp_path, again, kind))
        assert publish(stage(tmp_path, again, kind))["reason"] == "exited"
        assert published(again.objects, TO) == files
        assert not [one for one in again.objects if one.startswith(f"{TO}/.costguard")]
        assert begun.items() <= again.objects.items()
        if is_done:
            break
        steps += 1
    assert steps > len(files)
    assert (marker(store.objects, TO)["step"], marker(store.objects, TO)["metric"]["value"]) == (200, 1.0)


def _sees(store: MemoryStore, files: dict[str, bytes]) -> None:
    assert published(store.objects, TO) in (None, files)


def test_next_vm_publishes_another_checkpoint_without_a_rest_of_the_first(tmp_path: Path) -> None:
    """The VM ended half-way, the job went on elsewhere, and its best is another one."""
    first, second = KINDS["adapter"], KINDS["marked outside"]
    steps = 0
    while True:
        store = MemoryStore(location(first, {100: 1.0}), left=steps)
        try:
            publish(stage(tmp_path, store, first))
            break
        except VmGone:
            is_published = published(store.objects, TO) is not None
        kept = {name: body for name, body in store.objects.items() if name.startswith(TO)}
        later = MemoryStore({**kept, **location(second, {200: 0.5})})
        check_result(stage(tmp_path, later, second, 2))
        publish(stage(tmp_path, later, second, 2))
        if not is_published:
            assert published(later.objects, TO) == dict(second.write(200))
        assert not [name for name in later.objects if name.startswith(f"{TO}/.costguard")]
        steps += 1
    assert steps > 4


def test_files_of_a_checkpoints_folder_lie_at_the_place_itself(tmp_path: Path) -> None:
    """The address stays the same whichever step is the best, and a job that saves goes on undisturbed."""
    kind = KINDS["adapter"]
    store = MemoryStore(location(kind, {100: 1.0, 200: 2.0}))
    publish(stage(tmp_path, store, kind))
    assert f"{TO}/adapter_model.safetensors" in store.objects
    written = marker(store.objects, TO)
    assert written["checkpoint"] == f"{WHERE}/checkpoint-100"
    assert (written["job"], written["step"], written["chosen"]) == ("j7k2m9q4", 100, "best")
    assert written["metric"] == {"pattern": r"val_loss (\S+)", "better": "lower", "value": 1.0}


def test_file_that_names_the_newest_checkpoint_names_the_published_one(tmp_path: Path) -> None:
    """Megatron and DeepSpeed load nothing without it, and at the location it names a newer one."""
    kind = KINDS["Megatron's distributed format"]
    store = MemoryStore(location(kind, {100: 1.0, 200: 2.0}))
    assert store.objects[f"{WHERE}/latest_checkpointed_iteration.txt"] == b"200"
    publish(stage(tmp_path, store, kind))
    assert store.objects[f"{TO}/latest_checkpointed_iteration.txt"] == b"100"
    assert f"{TO}/iter_0000100/metadata.json" in store.objects


def test_where_no_value_is_known_the_newest_is_published_and_it_says_so(tmp_path: Path) -> None:
    """The report says that nothing was compared."""
    store = MemoryStore(location(PLAIN, {100: None, 200: None}))
    at_work = stage(tmp_path, store)
    publish(at_work)
    assert (marker(store.objects, TO)["step"], marker(store.objects, TO)["chosen"]) == (200, "latest")
    (reported,) = at_work.phases.fields()["transfers"]
    assert (reported["kind"], reported["source"], reported["target"]) == ("result", WHERE, TO)
    assert reported["note"] == "step 200, the newest: no value of the metric is known of a checkpoint"


def test_newest_is_published_where_that_is_asked_for(tmp_path: Path) -> None:
    """It counts for nothing how good an older one was; the marker has its own value."""
    store = MemoryStore(location(PLAIN, {100: 1.0, 200: 2.0}))
    at_work = stage(tmp_path, store, publish={"to": f"{TO}/", "which": "latest"})
    publish(at_work)
    assert (marker(store.objects, TO)["step"], marker(store.objects, TO)["metric"]["value"]) == (200, 2.0)
    assert at_work.phases.fields()["transfers"][0]["note"] == "step 200, the newest"


def test_without_a_complete_checkpoint_nothing_is_published(tmp_path: Path) -> None:
    """The exit says so, and that another VM would do no better."""
    store = MemoryStore()
    ended = publish(stage(tmp_path, store))
    assert (ended["reason"], ended["repeats"]) == ("not_published", True)
    assert ended["error"] == f"no complete checkpoint lies at {WHERE}"
    assert store.objects == {}


def test_result_of_another_job_stays(tmp_path: Path) -> None:
    """It was published at the same place meanwhile."""
    theirs = {f"{TO}/_SUCCESS": b'{"job": "jother"}', f"{TO}/weights": b"theirs"}
    store = MemoryStore({**location(PLAIN, {100: 1.0}), **theirs})
    assert (
        publish(stage(tmp_path, store))["error"] == f"another job published at {TO} meanwhile, and its result is kept"
    )
    assert theirs.items() <= store.objects.items()


def test_marker_within_a_checkpoint_announces_nothing(tmp_path: Path) -> None:
    """A job may mark its checkpoints by a file of the same name; of the copies ours alone is written, and last."""
    kind = Kind(lambda step: [(f"step-{step}/_SUCCESS", b""), (f"step-{step}/w", b"w")], PLAIN.look_for)
    kind = Kind(kind.write, type(PLAIN.look_for)(PLAIN.look_for.framework, "", "_SUCCESS"))
    store = MemoryStore(location(kind, {100: 1.0}))
    store.on_step = lambda: _sees(store, {"w": b"w"})
    publish(stage(tmp_path, store, kind))
    assert marker(store.objects, TO)["job"] == "j7k2m9q4"


def test_place_is_proved_before_any_work(tmp_path: Path) -> None:
    """The proof leaves nothing, and other nodes of a gang do not publish."""
    store = MemoryStore()
    check_result(stage(tmp_path, store))
    assert store.objects == {}
    given = {"attempt": "a", "guard": "https://g", "command": ["x"], "publish": {"to": TO}}
    assert read_settings(json.dumps({**given, "gang": {"node": "1", "nodes": "2"}}))[0].publish == {}
    assert read_settings(json.dumps({**given, "gang": {"node": "0", "nodes": "2"}}))[0].publish == {"to": TO}


METRIC = {"metric_pattern": r"val_loss (\S+)", "metric_better": "lower", "heartbeat_s": 0.3, "job": "j7k2m9q4"}
PUBLISH = {"publish": {"to": "s3://lab/models/bert", "which": "best"}}


def _models(s3: S3Server) -> dict[str, bytes]:
    seen = {name: content for name, content in s3.objects("lab").items() if name.startswith("models/bert/")}
    return {name.removeprefix("models/bert/"): content for name, content in seen.items()}


@pytest.mark.long
def test_best_of_a_real_run_is_published(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """The real agent, a real S3 server: the best is not among the newest two, and is the result."""
    _train(vm, s3, "step-10 step-20 step-30 step-40 step-50", PRINTS, **METRIC, **PUBLISH)
    vm.boot()
    let_go_on(vm, guard, 10, 20, 30, 40, 50)
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"]) == ("exited", 0)
    models = _models(s3)
    written = json.loads(models.pop("_SUCCESS"))
    assert models == {"weights": b"step-20" * 1000, "DONE": b""}
    assert (written["step"], written["metric"]["value"], written["checkpoint"]) == (20, 1.0, "s3://lab/run/step-20")
    result = next(one for one in end["transfers"] if one["kind"] == "result")
    assert (result["state"], result["note"]) == ("done", "step 20, the best: its metric is 1.0")


def test_agent_that_is_killed_again_and_again_publishes_the_result_once(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """A copy of several files takes a while; a reader sees nothing before the last one is there."""
    many = SAVES.replace(
        '(place / "weights").write_bytes',
        '[(place / f"part-{n}").write_bytes(b"x" * 200000) for n in range(12)]\n    (place / "weights").write_bytes',
    )
    _train(vm, s3, "step-10 step-20", many, bandwidth_mib_s=2, **METRIC, **PUBLISH)
    vm.boot()
    for _ in range(3):
        guard.wait_for("heartbeat", lambda event: event.get("phase") in ("saving", "publishing"))
        vm.crash()
        models = _models(s3)
        assert "_SUCCESS" not in models or len(models) == 15
        vm.boot()
    assert guard.wait_for("exit")["reason"] == "exited"
    models = _models(s3)
    assert json.loads(models["_SUCCESS"])["step"] == 20
    assert len(models) == 15
    assert guard.kinds_once().count("start") == 1


STOPS = f"""{WAIT}
def leave(*_):
    print("leaves", flush=True)
    wait("may-leave")
    sys.exit(CODE)
signal.signal(signal.SIGTERM, leave)
pathlib.Path(os.environ["MODEL"]).mkdir(exist_ok=True)
(pathlib.Path(os.environ["MODEL"]) / "model.bin").write_bytes(b"model")
{PRINTS}
wait("never")
"""


@pytest.mark.parametrize("code", [0, 3])
def test_command_that_is_ended_when_flat_publishes(vm: Vm, guard: FakeGuard, s3: S3Server, code: int) -> None:
    """The result is published in any case, outputs where it ended well; the exit says why it was asked."""
    model = str(vm.folder / "model")
    script = STOPS.replace("CODE", str(code))
    _train(
        vm,
        s3,
        "step-10 step-20 step-30",
        script,
        environment={"MODEL": model},
        outputs={"s3://lab/output": model},
        **METRIC,
        **PUBLISH,
    )
    vm.boot()
    let_go_on(vm, guard, 10, 20)
    guard.wait_for("heartbeat", lambda event: "step 30 val_loss 30" in event["output"])
    guard.why, guard.is_to_cancel = "flat", True
    assert guard.wait_for("stopping")["why"] == "flat"
    (vm.work / "may-leave").touch()
    end = guard.wait_for("exit")
    assert (end["code"], end["asked"]) == (code, "flat")
    assert json.loads(_models(s3)["_SUCCESS"])["step"] == 20
    assert ("output/model.bin" in s3.objects("lab")) is (code == 0)


def test_cancelled_command_publishes_nothing(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """A user wanted it to end: what it saved stays where it is."""
    script = STOPS.replace("CODE", "0")
    _train(vm, s3, "step-10 step-20", script, environment={"MODEL": str(vm.folder / "model")}, **METRIC, **PUBLISH)
    vm.boot()
    let_go_on(vm, guard, 10)
    guard.wait_for("heartbeat", lambda event: "step 20 val_loss 1" in event["output"])
    guard.is_to_cancel = True
    guard.wait_for("stopping")
    (vm.work / "may-leave").touch()
    assert guard.wait_for("exit")["asked"] == "cancel"
    assert _models(s3) == {}
