"""Linters of others find nothing in the files of deploy/ but what is explained here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.test_deploy import DEPLOY, ROOT
from tests.deploy.test_kustomize import OVERLAYS, built

ENVIRONMENT = Path(os.environ.get("COSTGUARD_DEPLOY_CHECKS", "nowhere"))
pytestmark = pytest.mark.skipif(not ENVIRONMENT.is_dir(), reason="`make deploy-checks` installs the linters")
CHECKOV = [str(ENVIRONMENT / "bin/checkov"), "--quiet", "--compact", "--skip-download", "--output=json"]
# What checkov finds, by its number and the resource's name, and why it stays.
EXPLAINED = {
    (
        "CKV_GCP_37",
        "google_compute_disk.data",
    ): "The disk is encrypted by Google's keys; own keys are a burden to keep.",
    ("CKV_GCP_38", "google_compute_instance.costguard"): "The boot disk holds nothing; as for the disk of data.",
    (
        "CKV_GCP_83",
        "google_pubsub_topic.events",
    ): "The topic holds audit entries for 7 days at most, under Google's keys.",
    ("CKV_GCP_26", "google_compute_subnetwork.costguard"): "One VM, or one service; refused connections are logged by "
    "the firewall. Flow logs would cost more than the VM.",
    (
        "CKV2_GCP_13",
        "google_sql_database_instance.costguard",
    ): "A line for each of thousands of statements a minute says nothing; lock waits are logged.",
    ("CKV_K8S_11", "Deployment"): "A limit of CPU slows passes and pages down in bursts; the request divides the node.",
    ("CKV_K8S_15", "Deployment"): "The image is named by version or digest, so it is what it was when it was pulled.",
    (
        "CKV_K8S_43",
        "Deployment",
    ): "The digest is that of the registry which the image is pushed to: set in the overlay.",
}


def findings(*arguments: str) -> set[tuple[str, str]]:
    """The number of each rule that checkov finds broken, with the resource: of Kubernetes its kind."""
    environ = {**os.environ, "LOG_LEVEL": "ERROR"}
    done = subprocess.run([*CHECKOV, *arguments], env=environ, capture_output=True, text=True, check=False, timeout=300)
    reports: Any = json.loads(done.stdout)
    reports = reports if isinstance(reports, list) else [reports]
    assert all(report["summary"]["passed"] and not report["summary"]["parsing_errors"] for report in reports)
    failed = [one for report in reports for one in report["results"]["failed_checks"]]
    return {
        (
            one["check_id"],
            one["resource"].partition("[")[0].partition(".costguard")[0]
            if one["check_id"].startswith("CKV_K8S")
            else one["resource"].partition("[")[0],
        )
        for one in failed
    }


def said(*command: str) -> str:
    """Returns what a linter of the environment prints where it finds something."""
    program = ENVIRONMENT / "bin" / command[0]
    if not program.exists():
        pytest.skip(f"{command[0]} has no wheel for this platform")
    full = [str(program), *command[1:]]
    done = subprocess.run(full, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    return done.stdout + done.stderr if done.returncode else ""


def test_checkov_finds_nothing_unexplained_in_terraform() -> None:
    """Each explanation is still needed, too."""
    explained = {key for key in EXPLAINED if "_K8S_" not in key[0]}
    assert findings("--directory", str(DEPLOY / "terraform"), "--framework", "terraform") == explained


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_checkov_finds_nothing_unexplained_in_an_overlay(overlay: str, tmp_path: Path) -> None:
    """checkov reads the objects as kubectl builds them."""
    file = tmp_path / "built.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(built(overlay))}))
    explained = {key for key in EXPLAINED if "_K8S_" in key[0]}
    assert findings("--file", str(file), "--framework", "kubernetes") == explained


def test_checkov_finds_nothing_in_the_container_file(tmp_path: Path) -> None:
    """checkov knows such a file by its older name."""
    shutil.copy(DEPLOY / "Containerfile", tmp_path / "Dockerfile")
    assert findings("--file", str(tmp_path / "Dockerfile"), "--framework", "dockerfile") == set()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubernetes_knows_every_key_of_an_overlay(overlay: str, tmp_path: Path) -> None:
    """kubernetes-validate has the schemas of the API, and refuses what they do not name."""
    for number, one in enumerate(built(overlay)):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(one))
        assert said("kubernetes-validate", "--strict", str(file)) == ""


def test_workflows_are_safe() -> None:
    """zizmor in its strictest mode, without asking anybody: injections, pins, rights, caches, credentials."""
    assert said("zizmor", "--offline", "--pedantic", ".github", "deploy/examples/training/.github") == ""


def test_shell_scripts_are_sound() -> None:
    """shellcheck of every script, those without a name's end too."""
    scripts = [
        str(file.relative_to(ROOT))
        for folder in ("deploy", "service", "tests")
        for file in (ROOT / folder).rglob("*.sh")
    ]
    assert len(scripts) >= 2
    assert said("shellcheck", "--severity=style", ".ci/run", *scripts) == ""
