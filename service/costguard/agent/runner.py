"""The runner: a process of its own that holds the command's output and learns how it ended. The agent may die."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from . import containers
from .files import boot_id, read, say, utc, write_json
from .output import Log, pump, tail

# A program that is not there, or is no program: it will not be there on another VM either.
NO_PROGRAM = (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
TAIL_BYTES = 8 << 10


def main() -> int:
    """`run FOLDER`, with the order on standard input. The command's own files are as readable as anybody's."""
    os.umask(0o022)
    run_command(sys.argv[2], json.load(sys.stdin))
    return 0


def run_command(folder: str, order: Mapping[str, Any]) -> None:
    """Writes begun.json before the command can have done anything, command.json as it runs, exit.json at its end.

    SIGTERM is the command's and the agent's matter: where a shutdown tells every process at once, the runner stays to
    see how the command ends.
    """
    signal.signal(signal.SIGTERM, lambda *_: None)  # unlike one that is ignored, it is not handed down to the command
    try:
        write_json(os.path.join(folder, "begun.json"), {"boot": boot_id()})
        command = subprocess.Popen(
            order["argv"],
            cwd=order["workdir"] or None,
            env=order["environment"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        repeats = not isinstance(error, OSError) or error.errno in NO_PROGRAM
        ended = {"reason": "not_started", "error": str(error), "repeats": repeats, "ended_at": utc()}
        _report(folder, "exit.json", ended)
        return
    started = {"pid": command.pid, "birth": birth(command.pid), "started_at": utc()}
    _report(folder, "command.json", started)
    log = Log(order["log"], order["log_bytes"], order["log_files"])
    assert command.stdout is not None
    hidden = [text.encode() for text in order["hidden"] if len(text) >= 8]
    pumping = threading.Thread(target=pump, args=(command.stdout.fileno(), log, hidden), daemon=True)
    pumping.start()
    code = command.wait()
    ended_at = utc()
    # A shell that dies of SIGTERM at once may leave behind the very process that is saving.
    pumping.join(order["grace_s"])
    signal_group(command.pid, signal.SIGKILL)
    pumping.join(1)
    ended = {**_how(order, code), "ended_at": ended_at}
    _report(folder, "exit.json", ended)
    if order["container"]:
        containers.remove(order["container"])


def _report(folder: str, name: str, document: Mapping[str, Any]) -> None:
    """To the agent that started this runner, and into a file for the one after it. Either may fail."""
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps({"name": name, "document": document}) + "\n")
        sys.stdout.flush()
    try:
        write_json(os.path.join(folder, name), document)
    except OSError as error:
        say(f"{name} is not kept: {error}")


def _how(order: Mapping[str, Any], code: int) -> dict[str, Any]:
    if order["container"]:
        said = containers.refusal(order["container"], code, tail(order["log"], TAIL_BYTES))
        if said is not None:
            error = f"Docker ran no command, and ended with code {code}: {said}"
            return {"reason": "not_started", "error": error, "code": code, "repeats": True}
    return {"reason": "exited", "code": code if code >= 0 else None, "signal": -code if code < 0 else None}


def birth(pid: int) -> str:
    """When a process started, in ticks since the boot: with it a process id is never mistaken for a later one's."""
    return "".join(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19:20])


def signal_group(group: int, number: int) -> None:
    """Nothing when the last of them has ended already."""
    with contextlib.suppress(OSError):
        os.killpg(group, number)
