"""A process with the libraries loaded that forks once for each run of tests: `python -m tests.mutants.warm`.

Nothing of the product or of the tests is loaded before the fork, so that each run reads the copy as it is then.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

import pytest

_LIBRARIES = (
    "alembic.command",
    "apscheduler.schedulers.background",
    "fastapi",
    "google.cloud.compute_v1",
    "httpx",
    "itsdangerous",
    "jinja2",
    "joserfc.jwt",
    "psycopg",
    "pydantic",
    "slack_sdk",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite",
    "structlog",
    "uvicorn",
)


def _main() -> None:
    for name in _LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            os.setsid()  # given up, it ends with all that it started
            written = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(written, 1)
            os.dup2(written, 2)
            code = pytest.main(order["arguments"])
            sys.stdout.flush()
            os._exit(int(code))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    _main()
