"""Outputs are published whole or not at all, wherever the VM that publishes them ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.agent.published import MemoryStore, VmGone, fill, marker, published

from costguard_vm.agent.failures import TransferFailed
from costguard_vm.agent.settings import AttemptSettings
from costguard_vm.agent.transfers.outputs import MARKER, check_outputs, names_in, publish_outputs
from costguard_vm.agent.transfers.phases import Phases
from costguard_vm.agent.transfers.preparation import Stage, StageFolders

PLACE = "s3://acme-models/run-12"
FIRST = {"weights.bin": b"first" * 10, "config.json": b"{}", "tokens/vocab": b"a b"}
SECOND = {"weights.bin": b"second" * 10, "config.json": b"{ }", "other/vocab": b"b a"}


class Held:
    """Stands in for the command's secrets: the transfer is the test's own."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def transfer(self, wait: object, is_gentle: bool = True) -> MemoryStore:
        return self._store


def stage(
    folder: Path,
    store: MemoryStore,
    number: int = 1,
    outputs: dict[str, str] | None = None,
    wait: Callable[[float], Any] = lambda _: None,
    **settings: Any,
) -> Stage:
    given = AttemptSettings(
        attempt=f"cg-j7k2m9q4-{number}",
        job="j7k2m9q4",
        outputs={PLACE: str(folder / "out")} if outputs is None else outputs,
        **settings,
    )
    held: Any = Held(store)
    return Stage(given, 1, StageFolders(str(folder), str(folder)), wait, held, lambda *_, **__: None, Phases())


def exit_of(at_work: Stage) -> dict[str, Any]:
    ended: dict[str, Any] = {"reason": "exited", "code": 0}
    publish_outputs(at_work, ended)
    return ended


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    fill(tmp_path / "out", FIRST)
    return tmp_path


def test_an_output_is_published_with_its_marker_and_nothing_else(folder: Path) -> None:
    """Waiting files are removed; the marker says whose it is."""
    store = MemoryStore({f"{PLACE}-2/other": b"kept"})
    assert exit_of(stage(folder, store)) == {"reason": "exited", "code": 0}
    assert published(store.objects, PLACE) == FIRST
    assert len(store.objects) == len(FIRST) + 2
    named = marker(store.objects, PLACE)
    assert (named["job"], named["attempt"], named["files"]) == ("j7k2m9q4", "cg-j7k2m9q4-1", 3)
    assert named["bytes"] == sum(map(len, FIRST.values()))


def test_wherever_the_vm_ends_a_reader_sees_all_or_nothing(folder: Path) -> None:
    """A VM may end between every two objects: then the next attempt, with other files, publishes its own without a rest
    of these.
    """
    steps = 0
    while True:
        fill(folder / "out", FIRST)
        store = MemoryStore(left=steps)
        store.on_step = lambda store=store: _holds(store, FIRST)  # type: ignore[misc]
        try:
            exit_of(stage(folder, store))
        except VmGone:
            is_done = False
        else:
            is_done = True
        first = published(store.objects, PLACE)
        assert first in (None, FIRST)
        fill(folder / "out", SECOND)
        again = MemoryStore(store.objects)
        check_outputs(stage(folder, again, 2))
        assert exit_of(stage(folder, again, 2))["reason"] == "exited"
        assert published(store.objects, PLACE) == (FIRST if first else SECOND)
        assert not [name for name in store.objects if ".costguard" in name]
        if is_done:
            break
        steps += 1
    assert steps > 3 * len(FIRST)


def _holds(store: MemoryStore, files: dict[str, bytes]) -> None:
    assert published(store.objects, PLACE) in (None, files)


def test_an_agent_that_is_started_again_goes_on_publishing(folder: Path) -> None:
    """The same run of the same attempt, wherever its agent was killed."""
    for steps in range(2, 12):
        store = MemoryStore(left=steps)
        with pytest.raises(VmGone):
            exit_of(stage(folder, store))
        exit_of(stage(folder, MemoryStore(store.objects)))
        assert published(store.objects, PLACE) == FIRST
        assert not [name for name in store.objects if ".costguard" in name]


def test_several_outputs_wait_for_each_other(folder: Path) -> None:
    """Where the second has nothing to publish, the first is not published either."""
    store = MemoryStore()
    outputs = {PLACE: str(folder / "out"), "gs://acme/logs": str(folder / "logs")}
    ended = exit_of(stage(folder, store, outputs=outputs))
    assert (ended["reason"], ended["repeats"]) == ("not_published", True)
    assert ended["error"] == f"there is nothing at {folder / 'logs'}"
    assert store.objects == {}


def test_a_single_file_is_published_as_one_object(folder: Path) -> None:
    """It needs no marker, and waits next to its place."""
    store = MemoryStore()
    outputs = {
        f"{PLACE}/model.bin": str(folder / "out/weights.bin"),
        f"{PLACE}/c.json": str(folder / "out/config.json"),
    }
    exit_of(stage(folder, store, outputs=outputs))
    assert store.objects == {f"{PLACE}/model.bin": FIRST["weights.bin"], f"{PLACE}/c.json": b"{}"}


def test_a_marker_of_the_commands_own_is_not_taken_for_ours(folder: Path) -> None:
    """Spark writes one: copied with the rest, it would announce an output of which half is there."""
    fill(folder / "out", {**FIRST, MARKER: b""})
    store = MemoryStore()
    store.on_step = lambda: _holds(store, FIRST)
    exit_of(stage(folder, store))
    assert published(store.objects, PLACE) == FIRST


def test_another_jobs_output_is_left_as_it_is(folder: Path) -> None:
    """It was published after this job was launched."""
    store = MemoryStore({f"{PLACE}/{MARKER}": b'{"job": "jother"}', f"{PLACE}/weights.bin": b"theirs"})
    ended = exit_of(stage(folder, store))
    assert (ended["reason"], ended["repeats"]) == ("not_published", True)
    assert published(store.objects, PLACE) == {"weights.bin": b"theirs"}


def test_files_of_others_at_the_destination_stay(folder: Path) -> None:
    """Files of another job that waits to publish there stay too."""
    others = {f"{PLACE}/notes.txt": b"mine", f"{PLACE}/.costguard/outputs/cg-jother-1.1/x": b"theirs"}
    store = MemoryStore(dict(others))
    exit_of(stage(folder, store))
    assert others.items() <= store.objects.items()


def test_trouble_that_may_pass_is_waited_for(folder: Path) -> None:
    """Hours of work depend on it; the page shows what the trouble is."""
    store, said = MemoryStore(), []
    troubles = [TransferFailed("timeout"), TransferFailed("timeout")]

    def step() -> None:
        if troubles:
            raise troubles.pop()

    at_work = stage(folder, store, wait=lambda _: said.append(at_work.phases.fields()))
    store.on_step = step
    assert exit_of(at_work)["reason"] == "exited"
    assert said[0]["phase"] == "publishing"
    assert said[0]["transfers"][0]["error"] == "timeout"
    assert at_work.phases.fields()["transfers"][0]["state"] == "done"


def test_trouble_that_lasts_is_reported_as_not_published(folder: Path) -> None:
    """The report has the error; the command itself succeeded."""
    store = MemoryStore()

    def step() -> None:
        raise TransferFailed("the job's credentials have no permission", True)

    store.on_step = step
    at_work = stage(folder, store)
    ended = exit_of(at_work)
    assert ended["error"] == "the job's credentials have no permission"
    assert (ended["reason"], ended["repeats"], ended["code"]) == ("not_published", True, 0)
    assert at_work.phases.fields()["transfers"][0]["state"] == "failed"


def test_links_in_a_circle_end(folder: Path) -> None:
    """A link to a file is published as the file."""
    (folder / "out/again").symlink_to(folder / "out")
    (folder / "out/latest").symlink_to(folder / "out/weights.bin")
    (folder / "out/gone").symlink_to(folder / "nowhere")
    assert names_in(str(folder / "out")) == sorted([*FIRST, "latest"])


def test_the_folder_of_an_output_is_made_for_a_container(tmp_path: Path) -> None:
    """The user need not be root; without a container the command makes what it needs, and a file stays possible."""
    (tmp_path / "vm").mkdir()
    contained = stage(tmp_path, MemoryStore(), outputs={PLACE: "/model"}, image="train:1", mounts=["/model:/model"])
    contained.volumes = str(tmp_path / "vm")
    check_outputs(contained)
    assert (tmp_path / "vm/model").stat().st_mode & 0o777 == 0o777
    check_outputs(stage(tmp_path, MemoryStore(), outputs={PLACE: str(tmp_path / "plain/model")}))
    assert (tmp_path / "plain").is_dir()
    assert not (tmp_path / "plain/model").exists()


def test_the_waiting_place_is_proved_before_any_work(folder: Path) -> None:
    """Where this attempt may not write, the command does not start; the proof leaves nothing."""
    store = MemoryStore()
    check_outputs(stage(folder, store))
    assert store.objects == {}

    def refuse() -> None:
        raise TransferFailed("no permission", True)

    store.on_step = refuse
    with pytest.raises(TransferFailed, match="no permission"):
        check_outputs(stage(folder, store))


def test_phases_are_safe_for_several_threads() -> None:
    """Heartbeats read them while transfers change them."""
    phases, over = Phases(), threading.Event()
    reading = threading.Thread(target=lambda: [phases.fields() for _ in iter(over.is_set, True)])
    reading.start()
    for number in range(500):
        phases.transfer("input", "s3://b", f"/{number}").end("done", 1, number)
    over.set()
    reading.join()
    assert len(phases.fields()["transfers"]) == 500
