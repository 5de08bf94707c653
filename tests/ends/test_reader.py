"""A log proves an end: the line that decides, the state it shows, and what it leaves unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costguard.ends.gpu_memory import memory_cause
from costguard.ends.program_rules import TABLE
from costguard.ends.reader import MAY_MATTER, MOST_READ, read_end
from costguard.ends.values import UNKNOWN_CAUSE, EndClass, LogState
from costguard.model.attempt import Retry

_STEPS = "".join(f"step {step}: loss 2.5\n" for step in range(10, 50, 10))
_WATCHDOG = (
    "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE) ran for 1800449 ms"
)
_OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 382.00 MiB (GPU 2; 15.78 GiB total capacity; "
    "14.02 GiB already allocated; 339.50 MiB free; 14.05 GiB reserved in total by PyTorch)"
)


def test_the_first_error_names_the_end() -> None:
    """Peers that go away and launchers that kill the rest follow from it."""
    log = (
        f"{_STEPS}{_OUT_OF_MEMORY}\n"
        "node1: NCCL WARN socketProgress: Connection closed by remote peer node2<42830>\n"
        f"{_WATCHDOG}\n"
        "Sending process 4711 closing signal SIGTERM\n"
        "OSError: [Errno 28] No space left on device\n"
    )
    reading = read_end(log)
    assert reading.end_class is EndClass.GPU_MEMORY
    assert reading.state is LogState.DEAD


def test_a_cause_that_another_rank_printed_later_stands_above_peers_that_went_away() -> None:
    """Lines of several ranks come in any order, and no peer goes away for no reason."""
    log = "NCCL WARN socketProgress: Connection closed by remote peer\nNCCL WARN Cuda failure 'out of memory'\n"
    assert read_end(log).end_class is EndClass.GPU_MEMORY


def test_what_a_rank_killed_names_the_end_and_not_those_who_waited_for_it() -> None:
    """Half an hour later the others time out."""
    assert read_end(f"Killed\n{_WATCHDOG}\n").end_class is EndClass.HOST_MEMORY


@pytest.mark.parametrize(
    "line",
    [
        "[2023-07-26 15:19:24] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 45098",
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 106 closing signal SIGTERM",
        "Unable to shutdown process 5527 via 15, forcefully exiting via 9",
    ],
)
def test_a_launcher_that_ends_its_processes_is_no_cause(line: str) -> None:
    """It is neither a preemption nor the kernel's out-of-memory killer."""
    reading = read_end(line)
    assert (reading.end_class, reading.cause) == (EndClass.UNKNOWN, UNKNOWN_CAUSE)


def test_an_error_that_the_training_survived_is_no_end() -> None:
    """It went on for three steps or more; one or two steps may be another rank's last words."""
    error = "requests.exceptions.ConnectionError: HTTPSConnectionPool: Max retries exceeded"
    assert read_end(f"{error}\n{_STEPS}").state is LogState.ALIVE
    assert read_end(f"{error}\n{_STEPS}").end_class is EndClass.UNKNOWN
    assert read_end(f"{_STEPS}{error}\nstep 50: loss 2.4\n").end_class is EndClass.NETWORK


def test_a_survived_error_does_not_hide_the_one_that_ended_it() -> None:
    """The first error that was not survived counts."""
    log = f"ConnectionError: Max retries exceeded\n{_STEPS}OSError: [Errno 28] No space left on device\n"
    assert read_end(log).end_class is EndClass.DISK


@pytest.mark.parametrize("log", ["", _STEPS, "host: NCCL INFO NET/IB : No device found.\n", "Saving checkpoint\n"])
def test_silence_is_no_end(log: str) -> None:
    """A log that stops proves nothing about the process that wrote it."""
    reading = read_end(log)
    assert (reading.end_class, reading.state) == (EndClass.UNKNOWN, LogState.UNKNOWN)


def test_a_wait_that_went_on_is_alive_and_one_that_did_not_hangs() -> None:
    """704 ranks were silent in a barrier for 4 h 56 min, and went on."""
    waits = "09:36:16Z blocked in sync_global_devices after checkpoint restore\n"
    assert read_end(waits).state is LogState.HUNG
    assert read_end(f"{waits}14:32:58Z resumed emitting output\n").state is LogState.ALIVE


def test_a_timeout_alone_shows_a_hang_and_the_end_of_the_process_a_death() -> None:
    """Other ranks may work on when one gave up."""
    assert read_end(_WATCHDOG).state is LogState.HUNG
    assert read_end(f"{_WATCHDOG}\nwe are taking the entire process down.").state is LogState.DEAD


def test_a_timeout_names_a_cause_only_where_the_log_shows_it() -> None:
    """Data that is still prepared, or a training that had finished before; and then another attempt is in vain."""
    assert read_end(_WATCHDOG).cause == UNKNOWN_CAUSE
    preparing = read_end(f"{_WATCHDOG}\nGenerating train split: 2231702 examples [30:00, 1577.98 examples/s]")
    assert "still preparing the data" in preparing.cause
    finished = read_end(f"`Trainer.fit` stopped: `max_epochs=3` reached.\n{_WATCHDOG}")
    assert "had finished" in finished.cause
    assert finished.retry is Retry.NO


def test_a_loss_that_becomes_a_number_again_is_no_nan() -> None:
    """The first steps of mixed precision often have one."""
    assert read_end("step 1: loss nan\nstep 2: loss nan\n").end_class is EndClass.NAN
    assert read_end(f"step 1: loss nan\n{_STEPS}").end_class is EndClass.UNKNOWN
    assert read_end("{'loss': 2.1, 'grad_norm': nan}\n{'loss': 0.0, 'grad_norm': nan}\n").end_class is EndClass.NAN


def test_a_warning_in_a_traceback_of_code_is_no_error() -> None:
    """A line of source after a place in a traceback says what could be raised, not what was."""
    place = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    raise MemoryError("no")\n'
    assert read_end(f"{place}KeyError: 1").end_class is EndClass.PROGRAM


@pytest.mark.parametrize(
    ("number", "expected", "retry"),
    [
        (79, EndClass.HARDWARE, Retry.OTHER_VM),
        (48, EndClass.HARDWARE, Retry.OTHER_VM),
        (31, EndClass.PROGRAM, Retry.NO),
        (13, EndClass.PROGRAM, Retry.NO),
    ],
)
def test_an_xid_is_the_hardware_or_a_program_as_nvidia_says(number: int, expected: EndClass, retry: Retry) -> None:
    """docs.nvidia.com/deploy/xid-errors: 13 and 31 are a program's accesses."""
    reading = read_end(f"kernel: NVRM: Xid (PCI:0000:01:00): {number}, pid=6755, name=python")
    assert (reading.end_class, reading.retry) == (expected, retry)


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (_OUT_OF_MEMORY, "the program's own tensors fill the GPU: 14.0 GiB of 15.8 GiB"),
        (
            "Tried to allocate 186.00 MiB (GPU 0; 22.13 GiB total capacity; 16.56 GiB already allocated; 164.62 MiB "
            "free; 16.78 GiB reserved in total by PyTorch)",
            "5.2 GiB of the GPU's 22.1 GiB are held outside this program's PyTorch",
        ),
        (
            "Tried to allocate 1.70 GiB. GPU 0 has a total capacty of 6.00 GiB of which 0 bytes is free. Of the "
            "allocated memory 2.93 GiB is allocated by PyTorch, and 2.30 GiB is reserved by PyTorch but unallocated.",
            "fragmentation: 2.3 GiB that PyTorch holds are unused, and hold no 1.7 GiB in one piece",
        ),
        ("Tried to allocate 90.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.",
         "one tensor of 90.0 GiB is larger than the GPU's 79.2 GiB"),
        ("CUDA out of memory.", None),
        # The wording of c10/cuda/CUDACachingAllocator.cpp since PyTorch 2.1.
        (
            "Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 39.39 GiB of which 15.06 MiB is free. Process "
            "12345 has 30.50 GiB memory in use. Including non-PyTorch memory, this process has 8.87 GiB memory in use. "
            "Of the allocated memory 8.10 GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but "
            "unallocated.",
            "other processes hold 30.5 GiB of the GPU's 39.4 GiB",
        ),
    ],
)  # fmt: skip
def test_figures_of_a_message_show_who_holds_the_gpus_memory(message: str, cause: str | None) -> None:
    """Nobody is blamed without figures."""
    assert memory_cause(message) == cause


def test_an_attempt_is_in_vain_only_where_the_log_shows_why() -> None:
    """A crash without a cause may be chance: it is tried again as any other."""
    assert read_end("TypeError: 'NoneType' object is not callable").shown_retry is Retry.NO
    assert read_end("OSError: [Errno 28] No space left on device").shown_retry is Retry.NO
    assert read_end("Segmentation fault (core dumped)").shown_retry is None
    assert read_end("RuntimeError: CUDA error: uncorrectable ECC error encountered").shown_retry is Retry.OTHER_VM


def test_every_line_that_a_rule_fits_passes_the_first_look() -> None:
    """The first look spares the rules the ordinary lines, and must not lose one that they know."""
    quotations = json.loads(Path(__file__).with_name("quotations.json").read_text("utf-8"))
    lines = {line for one in quotations for line in one["log"].splitlines()}
    fitting = [line for line in lines if any(rule.pattern.search(line) for rule in TABLE)]
    assert len(fitting) > 80
    assert [line for line in fitting if not MAY_MATTER.search(line)] == []


def test_only_the_end_of_a_long_log_is_read() -> None:
    """An end stands at the end, and a log may be of any size."""
    assert read_end("Killed\n" + "x" * (MOST_READ - 8)).end_class is not EndClass.UNKNOWN
    assert read_end("Killed\n" + "x" * MOST_READ).end_class is EndClass.UNKNOWN
