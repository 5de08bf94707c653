"""The example project: its image and workflow by their linters, its archive, and its script as a VM runs it."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from costguard.cli.job.work_directory import Ignores

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "deploy" / "examples" / "training"
WORKFLOW = EXAMPLE / ".github/workflows/images.yaml"
TRAINERS = ROOT / ".cache/trainers/venv/bin/python"


def tool(name: str) -> str:
    """A linter of the development environment; its wheel is there for some platforms alone."""
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        pytest.skip(f"{name} has no wheel for this platform")
    return str(path)


def lint(*command: str, cwd: Path = EXAMPLE) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout + done.stderr if done.returncode else ""


def test_linter_of_images_finds_nothing() -> None:
    """hadolint, with every rule and level."""
    assert lint(tool("hadolint"), "--failure-threshold", "style", "Dockerfile") == ""


def test_linter_of_images_sees_the_file(tmp_path: Path) -> None:
    """The test above means something."""
    (tmp_path / "Dockerfile").write_text((EXAMPLE / "Dockerfile").read_text().replace("3.12-slim-bookworm", "latest"))
    assert "DL3007" in lint(tool("hadolint"), "Dockerfile", cwd=tmp_path)


def lint_workflow(text: str, folder: Path) -> str:
    """Returns what actionlint says. It knows inputs of actions by their versions, not by the commits that pin them."""
    file = folder / ".github/workflows/workflow.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(re.sub(r"@[0-9a-f]{40} # (v\d+)\.\d+\.\d+", r"@\1", text))
    return lint(tool("actionlint"), "-shellcheck=", "-pyflakes=", str(file.relative_to(folder)), cwd=folder)


def test_linter_of_workflows_finds_nothing(tmp_path: Path) -> None:
    """actionlint: syntax, types of expressions, the inputs of each action, and actions that no longer run."""
    assert lint_workflow(WORKFLOW.read_text(), tmp_path) == ""


def test_linter_of_workflows_sees_the_file(tmp_path: Path) -> None:
    """An input that an action does not take is found."""
    wrong = WORKFLOW.read_text().replace("target: ${{", "targets: ${{")
    assert 'input "targets" is not defined' in lint_workflow(wrong, tmp_path)


def workflow() -> dict[Any, Any]:
    document: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text())
    return document


def test_workflow_builds_each_target_of_the_one_file() -> None:
    """Training and development, tagged with the commit and `latest`, with layers from the cache."""
    targets = set(re.findall(r"^FROM \S+ AS (\w+)$", (EXAMPLE / "Dockerfile").read_text(), re.MULTILINE))
    job = workflow()["jobs"]["build"]
    assert {entry["target"] for entry in job["strategy"]["matrix"]["include"]} == targets - {"base"}
    build = job["steps"][-1]["with"]
    assert build["target"] == "${{ matrix.target }}"
    assert "${{ github.sha }}" in build["tags"]
    assert ":latest" in build["tags"]
    assert "scope=${{ matrix.target }}" in build["cache-from"]


def test_workflow_builds_only_when_relevant_files_changed_and_pushes_from_main_or_on_request() -> None:
    """Every file that reaches an image is relevant; a pull request only builds."""
    document = workflow()
    on = document[True]  # YAML 1.1 reads the key `on` as true
    assert on["push"]["branches"] == ["main"]
    assert on["pull_request"]["paths"] == on["push"]["paths"]
    ignored = Ignores(EXAMPLE, ".dockerignore")
    relevant = Ignores(EXAMPLE, "paths")
    relevant._specs[""] = _spec(on["push"]["paths"])
    files = [str(path.relative_to(EXAMPLE)) for path in EXAMPLE.rglob("*") if path.is_file()]
    copied = [name for name in files if not ignored.ignored(name) and name not in (".gitignore",)]
    assert {"train.py", "conf/base.json", "requirements.txt"} <= set(copied)
    assert [name for name in copied if not relevant.ignored(name)] == []
    assert "README.md" not in copied
    assert document["jobs"]["build"]["env"]["PUSH"].count("github.event_name ==") == 2


def _spec(patterns: list[str]) -> Any:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(patterns)


def test_only_what_a_vm_needs_is_packed() -> None:
    """The pack for `costguard launch --workdir` is the script, its settings and its requirements."""
    ignores = Ignores(EXAMPLE, ".costguardignore")
    files = sorted(str(path.relative_to(EXAMPLE)) for path in EXAMPLE.rglob("*") if path.is_file())
    kept = [name for name in files if not ignores.ignored(name) and "__pycache__" not in name]
    assert [name for name in kept if not name.startswith(".")] == [
        "conf/base.json",
        "conf/small.json",
        "requirements-dev.txt",
        "requirements.txt",
        "train.py",
    ]


def test_options_of_the_readme_are_the_scripts() -> None:
    """The script takes what the README launches; each settings file has what it reads."""
    script = (EXAMPLE / "train.py").read_text()
    taken = set(re.findall(r'add_argument\("(--\w+)"', script))
    assert taken == {"--config", "--output", "--data", "--resume"}
    used = set(re.findall(r'config\["(\w+)"\]', script))
    for path in (EXAMPLE / "conf").iterdir():
        assert used <= json.loads(path.read_text()).keys()
    readme = (EXAMPLE / "README.md").read_text()
    for line in re.findall(r"-- python train\.py (.+)$", readme, re.MULTILINE):
        assert set(re.findall(r"--\w+", line)) <= taken
    ast.parse(script, feature_version=(3, 10))


def test_script_trains_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """The script has the real Trainer, in the environment of `make trainers`."""
    if not TRAINERS.exists():
        pytest.skip("PyTorch is not installed: `make trainers` does it")
    shutil.copytree(EXAMPLE, tmp_path / "code")
    command = [str(TRAINERS), "train.py", "--config", "conf/small.json", "--output", str(tmp_path / "out")]
    subprocess.run(command, cwd=tmp_path / "code", check=True, capture_output=True, timeout=300)
    assert (tmp_path / "out/final/model.safetensors").exists()
    before = (tmp_path / "out/final/model.safetensors").read_bytes()
    again = [*command, "--resume", str(tmp_path / "out/checkpoint-15")]
    done = subprocess.run(again, cwd=tmp_path / "code", check=True, capture_output=True, timeout=300, text=True)
    assert re.search(r"val_loss \d", done.stdout)
    assert (tmp_path / "out/final/model.safetensors").read_bytes() == before, "as if it had not been interrupted"
