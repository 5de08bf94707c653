"""VMs that run: what boots, what ends, and that nothing is left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import requests
from tests.sandbox.guest.served_vms import PATIENCE_S, ServedVMs, command_lines, processes_of, served_vms
from tests.sandbox.vms import MINUTE, PROJECT, SPOT, START, ZONE, body, new_world

from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.guest.local import CannotRunGuests, LocalGuests, LocalGuestSettings

SAVES = """
trap 'echo saved >"$HOME/checkpoint"; echo saved >$say; exit' TERM
echo ready >$say
while :; do sleep 0.05; done
"""
IGNORES = """
trap 'echo not-yet >$say' TERM
echo ready >$say
while :; do sleep 0.05; done
"""


def status(vm: VM) -> Status:
    """The VM's present state."""
    return vm.status


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[ServedVMs]:
    """Gives all the time that is needed."""
    with served_vms(tmp_path) as made:
        yield made


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[ServedVMs]:
    """Kills after three seconds."""
    with served_vms(tmp_path, grace_s=3) as made:
        yield made


def test_a_vm_boots_by_its_startup_script(patient: ServedVMs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The VM has a directory of its own, with what a VM knows and nothing of this machine's environment but its
    PATH.
    """
    monkeypatch.setenv("A_SECRET_OF_THIS_MACHINE", "hidden")
    vm = patient.boot("env | sort >environment; pwd >$say")
    assert patient.hear() == str(patient.disk(vm))
    disk = patient.disk(vm)
    lines = (line.partition("=") for line in (disk / "environment").read_text().splitlines())
    environment = {name: value for name, _, value in lines}
    assert {name: value for name, value in environment.items() if name not in ("PWD", "OLDPWD", "SHLVL", "_")} == {
        "COSTGUARD_PACE": "1",
        "PATH": f"{disk / 'bin'}:{disk / 'usr/local/bin'}:{os.environ['PATH']}",
        "PIP_PREFIX": str(disk / "usr/local"),
        "PYTHONPATH": str(disk / "usr/local/share/python"),
        "LANG": "C.UTF-8",
        "HOME": str(disk / "root"),
        "TMPDIR": str(disk / "tmp"),
        "COSTGUARD_METADATA": f"{patient.url}/metadata/{vm.id}/computeMetadata/v1",
        "COSTGUARD_HOME": str(disk / "var/lib/costguard"),
        "COSTGUARD_LOGS": str(disk / "var/log/costguard"),
        "COSTGUARD_VOLATILE": str(disk / "run/costguard"),
        "COSTGUARD_BOOT_ID": f"{vm.id}-1",
        "COSTGUARD_WITHOUT_SYSTEMD": "1",
        "COSTGUARD_VOLUMES": str(disk),
    }


def test_only_vms_with_a_startup_script_run(patient: ServedVMs) -> None:
    """All others are as simulated as without machines: they come and go by the clock alone."""
    patient.world.insert(PROJECT, ZONE, body(**SPOT))
    patient.world.advance(MINUTE)
    vm = patient.world.instance(PROJECT, "vm")
    assert not patient.disk(vm).exists()
    patient.world.preempt(PROJECT, "vm")
    patient.world.advance(MINUTE)
    assert status(vm) is Status.TERMINATED


def test_web_pages_cannot_create_vms_that_run(patient: ServedVMs) -> None:
    """Any web site could request one, and its startup script would run as the user who started the cloud."""
    instances = f"{patient.url}/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances"
    page = {"Origin": "https://example.com", "Content-Type": "text/plain"}
    assert requests.post(instances, json=body(), headers=page, timeout=PATIENCE_S).status_code == 403
    assert patient.world.every_vm() == []
    assert requests.post(instances, json=body(), timeout=PATIENCE_S).status_code == 200


def test_startup_scripts_do_not_run_by_default(tmp_path: Path) -> None:
    """It is off by default."""
    world = new_world()
    script = {"items": [{"key": "startup-script", "value": f"touch {tmp_path}/ran"}]}
    world.insert(PROJECT, ZONE, body(metadata=script))
    world.serve_at("http://127.0.0.1:1")
    world.advance(MINUTE)
    assert not world.guests
    world.unserve()
    assert list(tmp_path.iterdir()) == []


def test_a_vm_that_came_up_before_the_server_boots_with_it(tmp_path: Path) -> None:
    """A startup script needs the address of its metadata."""
    world = new_world(
        START, local_guests=LocalGuestSettings(tmp_path / "vms", boot=timedelta(0), path=os.environ["PATH"])
    )
    os.mkfifo(tmp_path / "said")
    said = os.open(tmp_path / "said", os.O_RDWR)
    script = f"echo $COSTGUARD_METADATA >{tmp_path}/said"
    world.insert(PROJECT, ZONE, body(metadata={"items": [{"key": "startup-script", "value": script}]}))
    world.advance(MINUTE)
    world.serve_at("http://127.0.0.1:1")
    try:
        assert os.read(said, 100).startswith(b"http://127.0.0.1:1/metadata/")
    finally:
        world.unserve()
        os.close(said)


def test_a_preempted_vm_saves_and_is_terminated(patient: ServedVMs) -> None:
    """SIGTERM with the notice; STOPPING until its processes are gone, TERMINATED then; its disk stays."""
    vm = patient.boot(SAVES)
    assert patient.hear() == "ready"
    patient.world.preempt(PROJECT, "vm")
    assert vm.is_preempted
    assert vm.runs[0].ended == patient.world.now
    assert patient.hear() == "saved"
    patient.wait_until_gone(vm)
    assert status(vm) is Status.STOPPING  # the power-off takes its simulated time as well
    patient.world.advance(MINUTE)
    assert status(vm) is Status.TERMINATED
    assert (patient.disk(vm) / "root/checkpoint").read_text() == "saved\n"


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace_period(hasty: ServedVMs) -> None:
    """Real seconds count, whatever the simulated clock says: until then the VM is STOPPING, and bills no more."""
    vm = hasty.boot(IGNORES)
    assert hasty.hear() == "ready"
    hasty.world.preempt(PROJECT, "vm")
    hasty.world.advance(timedelta(hours=1))
    assert status(vm) is Status.STOPPING
    assert hasty.hear() == "not-yet"
    hasty.wait_until_gone(vm)
    assert status(vm) is Status.TERMINATED
    assert vm.last_stop == hasty.world.now
    assert hasty.processes(vm) == []


def test_no_process_escapes_into_another_session(hasty: ServedVMs) -> None:
    """A process does not escape by setsid, by two of them, or with an empty environment."""
    vm = hasty.boot("""
cat >escape <<'END'
trap '' TERM
echo escaped >$1
while :; do sleep 0.05; done
END
nohup setsid sh escape $say >/dev/null 2>&1 &
(setsid env -i /bin/sh -c "setsid /bin/sh escape $say & cd /" &)
""")
    assert [hasty.hear(), hasty.hear()] == ["escaped", "escaped"]
    hasty.world.stop(PROJECT, "vm")
    hasty.world.advance(timedelta(seconds=1))
    hasty.wait_until_gone(vm)
    assert not [one for one in command_lines() if f"escape {hasty.said}" in one]


def test_services_end_what_they_started(patient: ServedVMs) -> None:
    """A session inside a service gets its SIGTERM when the service has ended, not at once, as under systemd."""
    vm = patient.boot("""
cat >child <<'END'
trap 'echo child got TERM >$1; exit' TERM
echo ready >$1
while :; do sleep 0.05; done
END
cat >service <<'END'
trap 'echo service got TERM >$1; read x <go; exit' TERM
setsid sh child $1 &
while :; do sleep 0.05; done
END
mkfifo go
setsid nohup sh service $say &
""")
    assert patient.hear() == "ready"
    patient.world.stop(PROJECT, "vm")
    patient.world.advance(timedelta(seconds=1))
    assert patient.hear() == "service got TERM"
    (patient.disk(vm) / "go").write_text("go\n")
    assert patient.hear() == "child got TERM"
    patient.wait_until_gone(vm)


def test_a_shutdown_script_runs_while_the_vm_ends(patient: ServedVMs) -> None:
    """It may use all the time that there is."""
    last = {"key": "shutdown-script", "value": f"echo goodbye >{patient.said}"}
    vm = patient.boot("echo ready >$say", items=[last])
    assert patient.hear() == "ready"
    patient.world.preempt(PROJECT, "vm")
    assert patient.hear() == "goodbye"
    patient.wait_until_gone(vm)


def test_a_stopped_vm_boots_again_on_its_disk(patient: ServedVMs) -> None:
    """The VM hears of no preemption any more."""
    vm = patient.boot('echo "$(cat count 2>/dev/null)x" >count; cat count >$say')
    assert patient.hear() == "x"
    patient.world.preempt(PROJECT, "vm")
    patient.wait_until_gone(vm)
    patient.world.advance(MINUTE)
    patient.world.start(PROJECT, "vm")
    patient.world.advance(MINUTE)
    assert patient.hear() == "xx"
    assert not vm.is_preempted


@pytest.mark.parametrize("keeps", [True, False])
def test_a_deleted_vms_directory_is_deleted_unless_its_disk_stays(patient: ServedVMs, keeps: bool) -> None:
    """autoDelete of the boot disk decides."""
    disks = [{"boot": True, "autoDelete": not keeps, "initializeParams": {"diskSizeGb": "10"}}]
    vm = patient.boot(SAVES, disks=disks)
    assert patient.hear() == "ready"
    patient.world.delete(PROJECT, "vm")
    patient.world.advance(timedelta(seconds=1))
    assert patient.hear() == "saved"
    patient.wait_until_gone(vm)
    patient.world.advance(timedelta(minutes=5))
    assert status(vm) is Status.DELETED
    assert patient.disk(vm).exists() is keeps


def test_the_run_time_limit_ends_a_vm_that_runs(patient: ServedVMs) -> None:
    """The limit ends it as any stop does."""
    vm = patient.boot(SAVES, scheduling={**SPOT["scheduling"], "maxRunDuration": {"seconds": "3600"}})
    assert patient.hear() == "ready"
    patient.world.advance(timedelta(hours=2))
    assert patient.hear() == "saved"
    patient.wait_until_gone(vm)
    assert status(vm) is Status.TERMINATED


def test_a_host_error_kills_at_once_and_the_vm_boots_again(patient: ServedVMs) -> None:
    """Nobody is asked to save; automaticRestart brings it back on the same disk."""
    vm = patient.boot(SAVES, scheduling={"automaticRestart": True})
    assert patient.hear() == "ready"
    patient.world.trigger("host-error", PROJECT, "vm")
    patient.world.advance(timedelta(minutes=5))
    assert patient.hear() == "ready"
    assert (status(vm), len(vm.runs)) == (Status.RUNNING, 2)
    assert not (patient.disk(vm) / "root/checkpoint").exists()


def test_a_reset_is_a_cold_boot(patient: ServedVMs) -> None:
    """The reset has no SIGTERM; the script runs again on the same disk."""
    vm = patient.boot(f"touch mark-$(ls | grep -c mark)\n{SAVES}")
    assert patient.hear() == "ready"
    patient.world.request("reset", PROJECT, ZONE, "vm")
    patient.world.advance(MINUTE)
    assert patient.hear() == "ready"
    assert sorted(one.name for one in patient.disk(vm).glob("mark*")) == ["mark-0", "mark-1"]
    assert not (patient.disk(vm) / "root/checkpoint").exists()


def test_a_new_vm_finds_an_empty_disk(tmp_path: Path) -> None:
    """An earlier cloud of the same seed may have left a directory under the same number."""
    for _ in range(2):
        with served_vms(tmp_path) as made:
            vm = made.boot("ls left 2>/dev/null; touch left; echo ready >$say")
            assert made.hear() == "ready"
            assert made.world.guests.serial_output(vm) == (0, b"")
        made.said.unlink()


def test_a_whole_path_belongs_to_the_vm_that_booted_last(tmp_path: Path) -> None:
    """A new VM finds its folders empty, as on a disk of its own, and a restarted one finds its files."""
    own = tmp_path / "shared" / "data"
    with served_vms(tmp_path, own_folders=(own,)) as made:
        made.boot(f"touch {own}/first; echo ready >$say", "one")
        assert made.hear() == "ready"
        made.world.request("reset", PROJECT, ZONE, "one")
        made.world.advance(MINUTE)
        assert made.hear() == "ready"
        assert [path.name for path in own.iterdir()] == ["first"]
        made.boot(f"ls {own} >$say; echo ready >$say", "two")
        assert made.hear() == "ready"


def test_a_suspended_vm_freezes_and_resumes(patient: ServedVMs) -> None:
    """The processes are stopped, not ended."""
    go = patient.folder / "go"
    os.mkfifo(go)
    vm = patient.boot(f"echo ready >$say; read word <{go}; echo $word >$say")
    assert patient.hear() == "ready"
    patient.world.suspend(PROJECT, "vm")
    patient.world.advance(2 * MINUTE)
    assert status(vm) is Status.SUSPENDED
    patient.wait_until_all_stand_still(vm)
    with ThreadPoolExecutor() as threads:
        writing = threads.submit(go.write_text, "on\n")
        patient.world.request("resume", PROJECT, ZONE, "vm")
        patient.world.advance(MINUTE)
        assert patient.hear() == "on"
        writing.result(PATIENCE_S)


def test_a_suspended_vm_can_be_deleted(patient: ServedVMs) -> None:
    """It is not woken for that."""
    vm = patient.boot(SAVES)
    assert patient.hear() == "ready"
    patient.world.suspend(PROJECT, "vm")
    patient.world.advance(2 * MINUTE)
    patient.world.delete(PROJECT, "vm")
    patient.world.advance(MINUTE)
    patient.wait_until_gone(vm)
    assert status(vm) is Status.DELETED
    assert not patient.disk(vm).exists()


def test_a_guest_that_exits_leaves_an_idle_vm(patient: ServedVMs) -> None:
    """It bills until a user stops it."""
    vm = patient.boot("echo done >$say")
    assert patient.hear() == "done"
    patient.world.advance(timedelta(hours=3))
    assert status(vm) is Status.RUNNING
    patient.world.stop(PROJECT, "vm")
    patient.world.advance(timedelta(minutes=3))
    patient.wait_until_gone(vm)
    assert status(vm) is Status.TERMINATED


def test_the_serial_port_shows_what_the_startup_script_printed(patient: ServedVMs) -> None:
    """Both of its outputs, from wherever the reader has read to."""
    patient.boot("echo one; echo two >&2; echo ready >$say")
    assert patient.hear() == "ready"
    serial = f"{patient.url}/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances/vm/serialPort"
    shown = requests.get(serial, timeout=30).json()
    assert (shown["kind"], shown["contents"], shown["start"], shown["next"]) == (
        "compute#serialPortOutput",
        "one\ntwo\n",
        "0",
        "8",
    )
    rest = requests.get(serial, params={"start": "4", "port": "1"}, timeout=30).json()
    assert (rest["contents"], rest["start"], rest["next"]) == ("two\n", "4", "8")
    assert requests.get(serial, params={"port": "5"}, timeout=30).status_code == 400


def test_the_end_of_the_server_ends_all_processes(tmp_path: Path) -> None:
    """The processes end however little they wish to."""
    with served_vms(tmp_path) as made:
        made.boot(IGNORES, "one")
        made.boot(IGNORES, "two")
        assert {made.hear(), made.hear()} == {"ready"}
    assert processes_of(tmp_path) == []


class _Minutes(ManualClock):
    """A clock whose minutes are real seconds."""

    speed = 60.0


def test_a_notice_lasts_for_real_seconds(tmp_path: Path) -> None:
    """The guest has its ten seconds on a clock that was sped up, too."""
    with served_vms(tmp_path, clock=_Minutes(START)) as made:
        vm = made.boot(SAVES)
        assert made.hear() == "ready"
        made.world.trigger_after_notice("preempt", PROJECT, "vm", notice=timedelta(seconds=10))
        made.world.advance(9 * MINUTE)
        assert (status(vm), vm.is_preempted) == (Status.RUNNING, True)
        made.world.advance(MINUTE)
        assert made.hear() == "saved"
        assert status(vm) is Status.STOPPING


def test_a_clock_that_waiting_moves_waits_for_processes_too(tmp_path: Path) -> None:
    """The operation of a stop is done when the VM is off, however its end was brought about."""
    with served_vms(tmp_path, grace_s=0.5, wait_moves_clock=True) as made:
        vm = made.boot(IGNORES)
        assert made.hear() == "ready"
        zone = f"{made.url}/compute/v1/projects/{PROJECT}/zones/{ZONE}"
        stop = requests.post(f"{zone}/instances/vm/stop", timeout=30).json()
        done = requests.post(f"{zone}/operations/{stop['name']}/wait", timeout=PATIENCE_S).json()
        assert done["status"] == "DONE"
        assert status(vm) is Status.TERMINATED


def test_other_systems_get_an_explanation() -> None:
    """No VM that cannot be ended for certain is ever begun."""
    with pytest.raises(CannotRunGuests, match="on Linux only, and this is darwin"):
        LocalGuests(LocalGuestSettings(), new_world().settled, platform="darwin")
