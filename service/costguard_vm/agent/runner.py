"""The runner: its own process, which starts the command and learns how it ends even if the agent dies."""

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
from functools import partial
from typing import Any

from .containers import AUTH_VARIABLE, Image, remove_container, run_arguments, why_not_started
from .files import boot_id, make_folder, read, say, utc, write_json, write_through
from .output import OutputLog, pump, tail
from .settings import AttemptSettings
from .setup import prepared_image, run_setup, setup_order
from .watch.ranks import adopt_orphans, descendants, kill_tree, rank_variables


def prepare(
    settings: AttemptSettings,
    secrets: Mapping[str, str],
    folder: str,
    run: int,
    step_file: str,
    image: Image | None,
) -> dict[str, Any]:
    """The order for the runner."""
    passed = {name: value for name, value in secrets.items() if name != AUTH_VARIABLE}
    own = {"COSTGUARD_ATTEMPT": settings.attempt, "COSTGUARD_RUN": str(run), "COSTGUARD_STEP_FILE": step_file}
    if settings.save_on == "file":
        own["COSTGUARD_SAVE_REQUEST"] = os.path.join(os.path.dirname(step_file), "save-request")
    # Unbuffered, so that steps are reported in time.
    variables = {"PYTHONUNBUFFERED": "1", **rank_variables(settings.gpus), **settings.environment, **passed, **own}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COSTGUARD_")}
    inherited.setdefault("HOME", os.path.expanduser("~"))  # systemd gives its services none
    argv, workdir = settings.command, settings.workdir or os.path.join(folder, "work")
    if image is not None:
        name = container(settings, run)
        config = config_of(folder)
        setup = setup_order(settings, folder, image.reference, name, config, step_file, variables)
        reference = prepared_image(settings) if settings.setup else image.reference
        argv = run_arguments(settings, reference, name, config, step_file, list(variables))
        for earlier in range(1, run):
            remove_container(container(settings, earlier))
        workdir = folder
    else:
        setup = setup_order(settings, folder, "", "", "", step_file, variables)
    make_folder(workdir)
    return {
        "setup": setup,
        "argv": argv,
        "container": container(settings, run) if image is not None else "",
        "workdir": workdir,
        "environment": {**inherited, **variables},
        "hidden": list(secrets.values()),
        "grace_s": settings.notice_grace_s,
        "log_bytes": settings.log_bytes,
        "log_files": settings.log_files,
    }


def config_of(folder: str) -> str:
    """The folder of Docker's settings, with the registry's password."""
    return os.path.join(folder, "docker")


def container(settings: AttemptSettings, run: int) -> str:
    return f"costguard-{settings.attempt}-{run}"


def hand_over(order: dict[str, Any], folder: str, held: int) -> subprocess.Popen[bytes]:
    """Starts the runner. The order goes through a pipe: secrets are in no file and in no list of processes.

    The runner keeps the lock `held` while it lives, which is how a later agent knows that it lives.
    """
    runner = subprocess.Popen(
        [sys.executable, "-I", os.path.abspath(sys.argv[0]), "run", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        pass_fds=(held,),
        cwd="/",
    )
    write_through(runner.stdin, order)
    return runner


# The program does not exist or is no program, as it would be on every VM.
NO_PROGRAM = (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
TAIL_BYTES = 8 << 10


def main() -> int:
    """`run FOLDER`, with the order on standard input. The command's files get the usual permissions."""
    os.umask(0o022)
    run_command(sys.argv[2], json.load(sys.stdin))
    return 0


def run_command(folder: str, order: Mapping[str, Any]) -> None:
    """Writes begun.json before the command starts, command.json once it runs, exit.json at its end.

    SIGTERM is for the command and the agent: where a shutdown sends it to every process, the runner stays to see how
    the command ends.
    """
    signal.signal(signal.SIGTERM, lambda *_: None)  # unlike an ignored signal, it is not inherited by the command
    adopt_orphans()
    try:
        write_json(os.path.join(folder, "begun.json"), {"boot": boot_id()})
        failure = run_setup(order, birth, _end_group, partial(_report, folder)) if order["setup"] else {}
        if failure:
            _report(folder, "exit.json", failure)
            return
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
    log = OutputLog(order["log"], order["log_bytes"], order["log_files"])
    assert command.stdout is not None
    hidden = [text.encode() for text in order["hidden"] if len(text) >= 8]
    pumping = threading.Thread(target=pump, args=(command.stdout.fileno(), log, hidden), daemon=True)
    pumping.start()
    code = command.wait()
    ended_at = utc()
    # A shell that dies of SIGTERM at once may leave behind the process that is saving.
    pumping.join(order["grace_s"])
    signal_group(command.pid, signal.SIGKILL)
    kill_tree(descendants(os.getpid()))
    pumping.join(1)
    ended = {**_how(order, code), "ended_at": ended_at}
    _report(folder, "exit.json", ended)
    if order["container"]:
        remove_container(order["container"])


def _report(folder: str, name: str, document: Mapping[str, Any]) -> None:
    """Reports to the agent that started this runner, and to a file for a later agent. Either may fail."""
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps({"name": name, "document": document}) + "\n")
        sys.stdout.flush()
    try:
        write_json(os.path.join(folder, name), document)
    except OSError as error:
        say(f"{name} is not kept: {error}")


def _how(order: Mapping[str, Any], code: int) -> dict[str, Any]:
    if order["container"]:
        reason = why_not_started(order["container"], code, tail(order["log"], TAIL_BYTES))
        if reason is not None:
            error = f"Docker ran no command, and ended with code {code}: {reason}"
            return {"reason": "not_started", "error": error, "code": code, "repeats": True}
    return {"reason": "exited", "code": code if code >= 0 else None, "signal": -code if code < 0 else None}


def birth(pid: int) -> str:
    """When a process started, in ticks since the boot: tells it from a later process with the same id."""
    return "".join(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19:20])


def _end_group(group: int) -> None:
    signal_group(group, signal.SIGKILL)


def signal_group(group: int, number: int) -> None:
    """Does nothing where all of them have ended."""
    with contextlib.suppress(OSError):
        os.killpg(group, number)
