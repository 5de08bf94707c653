"""The Terraform files as tests read them, and Terraform itself where it is here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import hcl2
import pytest

TERRAFORM = Path(__file__).resolve().parents[2] / "deploy" / "terraform"
FILES = sorted(TERRAFORM.rglob("*.tf"))


def blocks(kind: str) -> Iterator[tuple[Path, list[str], dict[str, Any]]]:
    """Each block of a kind, such as resource, with its file, its labels and its body, without quotes."""
    for file in FILES:
        for block in _read(file).get(kind, []):
            labels, body = [], block
            while "__is_block__" not in body:
                ((label, body),) = body.items()
                labels.append(label)
            yield file, labels, body


def resources(kind: str) -> dict[str, dict[str, Any]]:
    """The resources of a type, by their names."""
    return {labels[1]: body for _, labels, body in blocks("resource") if labels[0] == kind}


def local_values() -> dict[str, Any]:
    """All local values of the root module, as they are written."""
    return {
        name: value for file, _, body in blocks("locals") for name, value in body.items() if file.parent == TERRAFORM
    }


@cache
def _read(file: Path) -> dict[str, Any]:
    plain: dict[str, Any] = _plain(hcl2.loads(file.read_text()))
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_plain(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value[1:-1] if isinstance(value, str) and value[:1] == value[-1:] == '"' else value


def terraform() -> str:
    """The program. Skips the test where it is not here."""
    found_at = shutil.which("terraform") or shutil.which("tofu")
    if found_at is None:
        pytest.skip("neither terraform nor tofu is here")
    return found_at


def run_terraform(folder: Path, *arguments: str, **variables: Any) -> str:
    """Runs Terraform in a folder without a network. Returns what it prints; raises AssertionError where it fails."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    environ |= {"CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "TF_CLI_CONFIG_FILE": os.devnull}
    environ |= {
        f"TF_VAR_{name}": json.dumps(value) if not isinstance(value, str) else value
        for name, value in variables.items()
    }
    command = [terraform(), f"-chdir={folder}", *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
