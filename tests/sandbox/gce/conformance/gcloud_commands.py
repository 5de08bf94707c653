"""Runs commands of gcloud, which loads itself once for all of them: its Python runs this, and is given gcloud.py.

Each line that it reads is a command's words, as JSON. Each command has a process of its own, and is answered with one
line: its exit status, its output and its errors.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
from typing import IO, Any

_LONGEST_S = 120  # of a command
# What commands on VMs and disks load, three quarters of the time that they take. Another version may not have them.
_NEEDED = (
    "googlecloudsdk.generated_clients.apis.compute.v1.compute_v1_messages",
    "googlecloudsdk.generated_clients.apis.compute.v1.compute_v1_client",
    "googlecloudsdk.command_lib.compute.instances.create.flags",
    "googlecloudsdk.command_lib.compute.instances.flags",
    "googlecloudsdk.api_lib.compute.batch_helper",
    "googlecloudsdk.api_lib.compute.base_classes",
    "googlecloudsdk.core.credentials.store",
    "googlecloudsdk.core.credentials.requests",
)


def serve(program: str) -> None:
    """Answers until its input ends."""
    sys.path.insert(0, os.path.dirname(program))
    importlib.import_module("gcloud")._fix_google_module()
    gcloud = importlib.import_module("googlecloudsdk.gcloud_main")
    cli = gcloud.CreateCLI([])
    for name in _NEEDED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            if (child := os.fork()) == 0:
                _be(gcloud, cli, [program, *json.loads(line)], output, errors)
            _, status = os.waitpid(child, 0)
            said = [_read(output), _read(errors)]
        print(json.dumps([os.waitstatus_to_exitcode(status), *said]), flush=True)


def _be(gcloud: Any, cli: Any, words: list[str], output: IO[bytes], errors: IO[bytes]) -> None:
    """Become this command, as gcloud.py does it; one that hangs is ended by a signal."""
    signal.alarm(_LONGEST_S)
    for number, file in ((0, None), (1, output), (2, errors)):
        os.dup2(os.open(os.devnull, os.O_RDONLY) if file is None else file.fileno(), number)
    sys.argv = words
    status = 1
    try:
        status = gcloud.main(cli) or 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


if __name__ == "__main__":
    serve(sys.argv[1])
