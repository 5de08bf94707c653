"""Each process loads what it needs alone: that is what keeps a start short and both of them small."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Set as AbstractSet

import pytest


@pytest.mark.parametrize(
    ("module", "without"),
    [
        (
            "costguard.main.web_app",
            {"google.cloud", "slack_sdk", "apscheduler", "alembic", "obstore", "typer", "httpx2", "requests"},
        ),
        ("costguard.main.serve", {"google.cloud", "fastapi", "starlette", "uvicorn", "jinja2", "alembic", "obstore"}),
    ],
    ids=["serving", "watching"],
)
def test_process_does_not_load_what_the_other_one_needs(module: str, without: AbstractSet[str]) -> None:
    """The process does not load what is needed later, or by few, either: Google's client alone takes 75 MB."""
    ask = f"import sys, {module}; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert without & set(done.stdout.splitlines()) == set()
