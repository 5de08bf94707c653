"""Running a tool as a process, until it ends or is not wanted any more."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Callable, Union

LOOK_S = 0.1
MOST_LINE = 1 << 20
# The kernel groups processes by session, and a nice value counts within its group alone (man 7 sched, "The autogroup
# feature"): the group of a transfer is made nice, too.
_LAST = ("sh", "-c", '{ echo 19 > /proc/self/autogroup; } 2>/dev/null; exec "$@"', "sh")
FLOOR = 16  # the nice value of a transfer that falls behind: see `hasten`
# Whether a process is last in line for CPU and disk; a function says for how long.
Gentle = Union[bool, Callable[[], bool]]
OPEN = ("sh", "-c", 'umask 022; exec "$@"', "sh")  # a container's user need not be the agent's


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    wait: Callable[[float], object],
    sent: bytes,
    hear: Callable[[bytes], None],
    is_gentle: Gentle = False,
) -> tuple[int, bytes]:
    """The exit code and the output; `hear` gets each line of the error output. `wait` raises to end the process."""
    until = is_gentle if callable(is_gentle) else None
    with subprocess.Popen(
        [*OPEN, *(_gentle() if is_gentle else ()), *command],
        env=dict(environment),
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        printed: list[bytes] = []
        threads = [
            threading.Thread(target=_write, args=(process.stdin, sent), daemon=True),
            threading.Thread(target=_read, args=(process.stdout, printed), daemon=True),
            threading.Thread(target=_hear, args=(process.stderr, hear), daemon=True),
        ]
        try:
            for thread in threads:
                thread.start()
            while True:
                try:
                    process.wait(LOOK_S)
                    break
                except subprocess.TimeoutExpired:
                    wait(0)
                    if until is not None and not until():
                        hasten(process.pid)
        except BaseException:
            process.kill()
            raise
        for thread in threads:
            thread.join()
    return process.returncode, b"".join(printed)


def _gentle() -> list[str]:
    """Last in line for CPU and disk: the command's own work goes first. These tools keep the process's id.

    Ten pairs of a CPU training on all cores, with and without a copy (22 November 2026): 0.98 of the steps at the
    median; 0.51 before the autogroup was made nice.

    SCHED_IDLE has a weight of 3 next to 1,024 (kernel/sched/sched.h); a nice value of 19 has 15.
    """
    first = next((words for words in (["chrt", "-i", "0"], ["nice", "-n", "19"]) if shutil.which(words[0])), [])
    return [*_LAST, *first, *(["ionice", "-c", "3", "-t"] if shutil.which("ionice") else [])]


def hasten(pid: int) -> None:
    """Gives a gentle process and its threads a share that a busy command leaves them: a nice value of 16 has a weight
    of 29 next to 1,024, in its autogroup too.

    Next to a process that always computes, on one core (29 November 2026, medians of four times 5 s): 0.029 of the
    core, where SCHED_IDLE in an autogroup of nice 19 has 0.015, and 3 of 1,027 by its weight where there are no
    autogroups. The other keeps 0.971 of its pace; at a nice value of 15 it keeps 0.965, and at 10 0.902.
    A process that has ended, or that this user may not change, is left as it is, and so is one that has a larger share.
    """
    try:
        for thread in map(int, os.listdir(f"/proc/{pid}/task")):
            is_last = os.sched_getscheduler(thread) != os.SCHED_OTHER
            if is_last or os.getpriority(os.PRIO_PROCESS, thread) > FLOOR:
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
                os.setpriority(os.PRIO_PROCESS, thread, FLOOR)
        with open(f"/proc/{pid}/autogroup", "r+", encoding="ascii") as group:
            if int(group.read().split()[-1]) > FLOOR:
                group.seek(0)
                group.write(str(FLOOR))
    except (AttributeError, OSError, LookupError):  # no Linux, no such process, no right, or no autogroups
        pass


def _write(pipe: IO[bytes], content: bytes) -> None:
    try:
        with pipe:
            pipe.write(content)
    except OSError:  # it ended before it had read all
        pass


def _read(pipe: IO[bytes], printed: list[bytes]) -> None:
    printed.append(pipe.read())


def _hear(pipe: IO[bytes], hear: Callable[[bytes], None]) -> None:
    for line in iter(lambda: pipe.readline(MOST_LINE), b""):
        hear(line)
