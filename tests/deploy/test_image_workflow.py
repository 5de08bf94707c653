"""The workflow that builds, scans, publishes and signs the container image: pinned, and with the least rights."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.test_deploy import CONTAINERFILE, ROOT
from tests.deploy.test_training_example import lint, lint_workflow, tool

from costguard import __version__

WORKFLOW = ROOT / ".github/workflows/image.yaml"
WORKFLOWS = sorted([*ROOT.glob(".github/workflows/*"), *ROOT.glob("deploy/examples/*/.github/workflows/*")])
JOBS: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())["jobs"]


def step(job: str, beginning: str) -> dict[str, Any]:
    """The one step whose name or action begins so."""
    steps: list[dict[str, Any]] = JOBS[job]["steps"]
    (only,) = [one for one in steps if (one.get("name") or one.get("uses", "")).startswith(beginning)]
    return only


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_actions_are_pinned_by_commit(file: Path) -> None:
    """A tag can be moved to other code; a commit cannot. The version stands next to it, for people."""
    uses = re.findall(r"uses: (.*)", file.read_text())
    assert uses
    assert [one for one in uses if not re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []


def test_base_images_are_pinned_by_digest() -> None:
    """Each build of one commit starts from the same image; a bot moves the digest, and the scan says when it must."""
    bases = re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE)
    assert len(bases) == 2
    assert all(re.fullmatch(r"docker\.io/library/python:3\.11-slim@sha256:[0-9a-f]{64}", base) for base in bases)
    assert len(set(bases)) == 1


def test_linters_find_nothing(tmp_path: Path) -> None:
    """actionlint reads the workflow, hadolint the container file."""
    assert lint_workflow(WORKFLOW.read_text(), tmp_path) == ""
    assert lint(tool("hadolint"), "--failure-threshold", "style", "deploy/Containerfile", cwd=ROOT) == ""


def test_only_publishing_may_write() -> None:
    """A pull request's code never runs in a job that may write; no secret is used but the run's own token."""
    assert yaml.safe_load(WORKFLOW.read_text())["permissions"] == {}
    assert {name: job["permissions"] for name, job in JOBS.items()} == {
        "test": {"contents": "read"},
        "build": {"contents": "read"},
        "publish": {"contents": "read", "packages": "write", "id-token": "write"},
    }
    assert "secrets." not in WORKFLOW.read_text()
    assert "pull_request_target" not in WORKFLOW.read_text()
    checkouts = [one for job in JOBS.values() for one in job["steps"] if "checkout" in one.get("uses", "")]
    assert all(one["with"]["persist-credentials"] is False for one in checkouts)


def test_what_is_published_was_tested_and_scanned() -> None:
    """A tag publishes the very image that was tested, listed and scanned; then it and its list are signed."""
    assert JOBS["publish"]["needs"] == ["test", "build"]
    assert JOBS["publish"]["if"] == "github.event_name == 'push' && github.ref_type == 'tag'"
    built = step("build", "Build the image")["with"]["tags"]
    assert step("build", "List what")["with"]["image"] == built
    scan = step("build", "Scan it")["with"]
    assert scan["sbom"] == step("build", "List what")["with"]["output-file"]
    assert scan["fail-build"] is True
    names = [one.get("name") or one.get("uses") or one["run"] for one in JOBS["build"]["steps"]]
    assert names.index(f"docker save {built} --output costguard.tar") > names.index(step("build", "Scan it")["name"])
    push = step("publish", "Publish the image")["run"]
    assert "docker load --input costguard.tar" in push
    assert f"docker tag {built} " in push
    sign = step("publish", "Sign it")["run"]
    assert re.findall(r"cosign (\w+) --yes", sign) == ["sign", "attest"]
    assert scan["sbom"] in sign


def test_image_gets_each_of_its_labels() -> None:
    """The arguments of the build are those that the container file's labels are made of."""
    given = dict(line.split("=", 1) for line in step("build", "Build the image")["with"]["build-args"].splitlines())
    assert set(given) == set(re.findall(r"^ARG (\w+)=", CONTAINERFILE, re.MULTILINE))


@pytest.mark.parametrize(("tag", "passes"), [(f"v{__version__}", True), ("v9.9.9", False), (__version__, False)])
def test_tag_must_be_the_version_of_the_code(tag: str, passes: bool, tmp_path: Path) -> None:
    """The step's own script: another tag ends the run before anything is built."""
    output = tmp_path / "output"
    environ = {
        "PATH": os.environ["PATH"],
        "GITHUB_OUTPUT": str(output),
        "GITHUB_REF_TYPE": "tag",
        "GITHUB_REF_NAME": tag,
    }
    script = step("build", "Read the version")["run"]
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) is passes, done.stdout + done.stderr
    if passes:
        said = dict(line.split("=", 1) for line in output.read_text().splitlines())
        assert said["version"] == __version__
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", said["created"])
