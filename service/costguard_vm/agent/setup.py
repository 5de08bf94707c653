"""The job's setup: a shell command that prepares a VM once, before the command, on the VM or in the image.

In an image it runs in a container of its own, which is then committed (`docker commit`): the command runs in what the
setup left. Its variables reach the shell through standard input: `docker commit` keeps a container's variables and
its command in the new image (docs.docker.com/reference/cli/docker/container/commit).
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

from .containers import inspect_image, options_of, remove_container, why_not_started
from .files import read_json, utc, write_json
from .output import NO_PROGRESS, OutputLog, last_lines, pump, tail
from .settings import AttemptSettings
from .state import SavedState

TAIL_BYTES = 8 << 10
COMMIT_S = 3600
READ_SCRIPT = 'script=$(cat); exec </dev/null; eval "$script"'


def setup_order(
    settings: AttemptSettings,
    folder: str,
    reference: str,
    name: str,
    config: str,
    step_file: str,
    variables: Mapping[str, str],
) -> dict[str, Any]:
    """Returns the runner's orders before the command; empty where an earlier run on this VM carried them out.

    `reference` is the image that was pulled; "" without one.
    """
    done = read_json(note_of(folder))
    is_there = not reference or inspect_image(prepared_image(settings)) is not None
    if not settings.setup or (done.get("reference") == reference and is_there):
        return {}
    order = {"note": note_of(folder), "reference": reference, "script": "", "commit": []}
    if not reference:
        return {**order, "argv": ["/bin/sh", "-c", settings.setup]}
    exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in variables.items())
    options = options_of(settings, name, step_file)
    run = ["docker", "--config", config, "run", "--interactive", *options, "--entrypoint", "/bin/sh"]
    return {
        **order,
        "argv": [*run, reference, "-c", READ_SCRIPT],
        "script": exports + settings.setup,
        "commit": ["docker", "commit", *_changes(reference), name, prepared_image(settings)],
    }


def note_of(folder: str) -> str:
    """Where the end of a setup is noted, for later runs on this VM."""
    return os.path.join(folder, "setup.json")


def prepared_image(settings: AttemptSettings) -> str:
    return f"costguard-setup:{settings.attempt}"


def _changes(reference: str) -> list[str]:
    """The committed image runs what the first one does, and not the setup again.

    ENTRYPOINT comes first: it resets CMD (docs.docker.com/reference/dockerfile, "Understand how CMD and ENTRYPOINT
    interact").
    """
    config = (inspect_image(reference) or {}).get("Config") or {}
    changes = ["--change", f"ENTRYPOINT {json.dumps(config.get('Entrypoint') or [])}"]
    return [*changes, "--change", f"CMD {json.dumps(config['Cmd'])}"] if config.get("Cmd") else changes


def log_of(log: str) -> str:
    """The setup's output, next to the command's: in it, steps and metrics are looked for."""
    return f"{log[: -len('.log')]}.setup.log"


def run_setup(
    order: Mapping[str, Any],
    birth: Callable[[int], str],
    end_group: Callable[[int], None],
    report: Callable[[str, Mapping[str, Any]], None],
) -> dict[str, Any]:
    """Runs the setup in the runner. Returns the document of exit.json where it failed, else nothing."""
    setup, began = order["setup"], time.monotonic()
    try:
        shell = subprocess.Popen(
            setup["argv"],
            cwd=order["workdir"] or None,
            env=order["environment"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return _failed(error=str(error))
    started = {"pid": shell.pid, "birth": birth(shell.pid), "started_at": utc()}
    report("setup.json", started)
    assert shell.stdin is not None
    assert shell.stdout is not None
    threading.Thread(target=_write, args=(shell.stdin, setup["script"].encode()), daemon=True).start()
    log = OutputLog(log_of(order["log"]), order["log_bytes"], order["log_files"])
    hidden = [text.encode() for text in order["hidden"] if len(text) >= 8]
    pumping = threading.Thread(target=pump, args=(shell.stdout.fileno(), log, hidden), daemon=True)
    pumping.start()
    code = shell.wait()
    pumping.join(order["grace_s"] if code else 1)
    end_group(shell.pid)
    pumping.join(1)
    log.close()
    failure = _judge(order, code) or _commit(setup["commit"])
    if order["container"]:
        remove_container(order["container"])
    seconds = round(time.monotonic() - began, 3)
    if not failure:
        with contextlib.suppress(OSError):  # it runs again on this VM, if at all
            write_json(setup["note"], {"reference": setup["reference"], "seconds": seconds})
    report("setup.json", {**started, "ended_at": utc(), "seconds": seconds})
    return failure


def _write(pipe: IO[bytes], content: bytes) -> None:
    with contextlib.suppress(OSError), pipe:  # it may end before it has read all
        pipe.write(content)


def _judge(order: Mapping[str, Any], code: int) -> dict[str, Any]:
    if not code:
        return {}
    if order["container"]:
        reason = why_not_started(order["container"], code, tail(log_of(order["log"]), TAIL_BYTES))
        if reason is not None:
            error = f"Docker could not run the setup, and ended with code {code}: {reason}"
            return {"reason": "not_started", "error": error, "code": code, "repeats": True, "ended_at": utc()}
    return _failed(code=code if code > 0 else None, signal=-code if code < 0 else None)


def _commit(command: list[str]) -> dict[str, Any]:
    if not command:
        return {}
    try:
        done = subprocess.run(command, capture_output=True, timeout=COMMIT_S, check=False)
        words = done.stderr.decode("utf-8", "replace").strip()[-500:]
    except (OSError, subprocess.SubprocessError) as problem:
        return _failed(error=f"what it left cannot be kept: {problem}")
    return _failed(error=f"what it left cannot be kept: docker commit failed: {words}") if done.returncode else {}


def _failed(**how: Any) -> dict[str, Any]:
    return {"reason": "setup_failed", "ended_at": utc(), **how}


class SetupWatch:
    """The setup as the agent sees it, by what the runner writes."""

    def __init__(self, settings: AttemptSettings, state: SavedState, log: str) -> None:
        self._settings, self._state, self._log = settings, state, log_of(log)

    @property
    def pid(self) -> int:
        """Returns the process of a setup that runs; 0 where none does."""
        written = self._state.of_runner("setup.json") if self._settings.setup else {}
        return 0 if "ended_at" in written else written.get("pid", 0)

    def heartbeat(self) -> dict[str, Any]:
        """Fields of a heartbeat while it runs."""
        if not self.pid:
            return {}
        output = self._output(self._settings.output_lines, self._settings.output_bytes)
        return {"phase": "setup", "output": output}

    def start(self) -> dict[str, Any]:
        """Fields of the command's start: how long the setup of this run took."""
        seconds = self._state.of_runner("setup.json").get("seconds") if self._settings.setup else None
        return {} if seconds is None else {"setup_s": seconds}

    def exit(self, reason: str) -> dict[str, Any]:
        """Fields of an exit without a command: what the setup printed."""
        if reason != "setup_failed":
            return {}
        most = self._settings.exit_output_bytes
        return {**NO_PROGRESS, "output": self._output(most, most)}

    def _output(self, most_lines: int, most_bytes: int) -> list[str]:
        return last_lines(tail(self._log, max(TAIL_BYTES, 4 * most_bytes)), most_lines, most_bytes)
