"""An undisturbed run: start, heartbeats, steps, exit."""

from __future__ import annotations

from tests.agent.fake_guard import FakeGuard
from tests.agent.scripts import WAIT
from tests.agent.vm import ATTEMPT, Vm


def test_a_run_is_reported_from_start_to_exit(vm: Vm, guard: FakeGuard) -> None:
    """The guard hears of boot, start, heartbeats with step and output, and exit, all under growing numbers."""
    vm.train(f"{WAIT}\nprint('epoch 1, step 41')\nwait('go')\nprint('step 42')\nprint('done')")
    vm.boot()
    beat = guard.wait_for("heartbeat", lambda event: event["step"] == 41)
    assert beat["output"] == ["epoch 1, step 41"]
    assert beat["is_running"]
    assert beat["machine"]["memory_used_bytes"] > 0
    assert beat["machine"]["disk_free_bytes"] > 0
    assert 0 <= guard.wait_for("heartbeat", lambda event: event["machine"]["cpu"] is not None)["machine"]["cpu"] <= 1
    (vm.work / "go").touch()
    end = guard.wait_for("exit")
    assert vm.finished() == 0
    assert guard.kinds() == ["boot", "start", "exit"]
    assert (end["reason"], end["code"], end["signal"], end["asked"], end["step"]) == ("exited", 0, None, None, 42)
    assert end["output"] == ["epoch 1, step 41", "step 42", "done"]
    assert [event["seq"] for event in guard.events] == list(range(1, len(guard.events) + 1))
    assert guard.paths == {f"/api/v1/attempts/{ATTEMPT}/events"}


def test_a_step_file_wins_over_what_is_printed(vm: Vm, guard: FakeGuard) -> None:
    """The command finds the file's name in its environment, and a number in it is the step."""
    vm.train(f"{WAIT}\nprint('step 9')\nopen(os.environ['COSTGUARD_STEP_FILE'], 'w').write('1200\\n')\nwait('go')")
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["step"] == 1200)
    (vm.work / "go").touch()
    assert guard.wait_for("exit")["step"] == 1200


def test_the_job_may_say_how_it_prints_steps(vm: Vm, guard: FakeGuard) -> None:
    """A pattern of the job's own, of which the first group is the step, replaces the usual one."""
    vm.train("print('step 3')\nprint('[it 77/100]')", step_pattern=r"\[it (\d+)/")
    vm.boot()
    assert guard.wait_for("exit")["step"] == 77


def test_a_crash_reports_its_code_and_last_lines(vm: Vm, guard: FakeGuard) -> None:
    """A non-zero exit reaches the guard with the traceback; a signal is distinguished from a code."""
    vm.train("raise RuntimeError('CUDA out of memory')")
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["code"], end["signal"]) == (1, None)
    assert end["output"][-1] == "RuntimeError: CUDA out of memory"


def test_a_command_ended_by_a_signal_says_which(vm: Vm, guard: FakeGuard) -> None:
    """The kernel's memory killer looks like this."""
    vm.train("import os; os.kill(os.getpid(), 9)")
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"], end["signal"], end["asked"]) == ("exited", None, 9, None)


def test_a_command_that_does_not_exist_is_reported_as_not_started(vm: Vm, guard: FakeGuard) -> None:
    """The operating system's words come along, and that no other VM would have it."""
    vm.order("no-such-program", "--really")
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["repeats"]) == ("not_started", True)
    assert "no-such-program" in end["error"]
    assert vm.finished() == 0


def test_wrong_settings_are_reported_and_nothing_is_started(vm: Vm, guard: FakeGuard) -> None:
    """Each wrong key is named, with what it should be like."""
    vm.order("touch", "started", heartbeat_s="often", environment={"N": 3}, step_pattern="(")
    vm.boot()
    end = guard.wait_for("exit")
    assert end["reason"] == "not_started"
    assert all(word in end["error"] for word in ("heartbeat_s", "environment", "step_pattern"))
    assert not vm.work.exists()


def test_a_vm_without_an_attempt_has_nothing_to_do(vm: Vm, guard: FakeGuard) -> None:
    """The agent ends by itself, and systemd does not start it again."""
    vm.boot()
    assert vm.finished() == 0
    assert "nothing to do on this VM" in vm.spoken.read_text()
    assert not guard.requests


def test_huge_output_is_kept_in_bounds(vm: Vm, guard: FakeGuard) -> None:
    """200 MB of output leave two rotated files, short events, and the last line."""
    script = "for _ in range(200): print((line + '\\n') * 1000)\nprint('y' * 10_000_000)\nprint('the end')"
    vm.train(
        f"line = 'x' * 999\n{script}",
        log_bytes=1 << 20,
        log_files=2,
        exit_output_bytes=5000,
    )
    vm.boot()
    end = guard.wait_for("exit")
    assert end["code"] == 0
    assert end["output"][-1] == "the end"
    assert sum(map(len, end["output"])) <= 5000
    files = list(vm.logs.iterdir())
    assert len(files) == 2
    assert sum(file.stat().st_size for file in files) <= 2 << 20
    assert all(len(str(event["output"])) < 5000 for event in guard.events if event["kind"] == "heartbeat")


def test_a_progress_bar_is_shown_as_a_terminal_would(vm: Vm, guard: FakeGuard) -> None:
    """The last state of output that overwrites itself is reported; bytes that are no text break nothing."""
    vm.train(r"import sys; sys.stdout.buffer.write(b'10%\r50%\r100%\nbad \xff byte\n')")
    vm.boot()
    assert guard.wait_for("exit")["output"] == ["100%", "bad � byte"]


def test_a_process_left_behind_does_not_hold_up_the_end(vm: Vm, guard: FakeGuard) -> None:
    """A process that still holds the output after the grace is ended with the command's group."""
    vm.order("sh", "-c", "sleep 600 & echo started", notice_grace_s=0.1)
    vm.boot()
    assert guard.wait_for("exit")["code"] == 0
    assert vm.finished() == 0


def test_the_start_is_recorded_before_any_progress(vm: Vm, guard: FakeGuard) -> None:
    """Reports of a run come in their order, also where the agent's main loop sleeps through the command's start."""
    vm.train(f"{WAIT}\nprint('step 41')\nwait('never')", poll_s=600.0, heartbeat_s=0.02)
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["step"] == 41)
    events = guard.events
    assert [event["kind"] for event in events if event["kind"] != "heartbeat"] == ["boot", "start"]
    start = next(event["seq"] for event in events if event["kind"] == "start")
    early = [event for event in events if event["kind"] == "heartbeat" and event["seq"] < start]
    assert {(event["is_running"], event["step"], tuple(event["output"])) for event in early} <= {(False, None, ())}
    assert all(event["is_running"] for event in events if event["kind"] == "heartbeat" and event["seq"] > start)


def test_the_exit_is_the_last_report_of_its_run(vm: Vm, guard: FakeGuard) -> None:
    """A heartbeat that was being made as the command ended is left out."""
    vm.train("print('step 1')", heartbeat_s=0.001)
    vm.boot()
    assert vm.finished() == 0
    assert guard.events[-1]["kind"] == "exit"
    assert guard.kinds() == ["boot", "start", "exit"]
