"""The manifests for Kubernetes: each overlay, as kubectl builds it, is hardened, in step with the image, and loads."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.test_deploy import CONTAINERFILE, DEPLOY, final_stage

from costguard import __version__
from costguard.settings import load
from costguard.settings.environment import DATABASE, TOKEN, VARIABLES

KUSTOMIZE = DEPLOY / "kustomize"
OVERLAYS = sorted(path.name for path in (KUSTOMIZE / "overlays").iterdir())
SETTINGS = KUSTOMIZE / "overlays/postgresql/costguard.toml"


@cache
def built(overlay: str) -> tuple[dict[str, Any], ...]:
    """All objects of an overlay. Skips the test where kubectl is not here."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not here, which builds the overlays")
    command = [kubectl, "kustomize", str(KUSTOMIZE / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return tuple(yaml.safe_load_all(done.stdout))


def of_kind(overlay: str, kind: str) -> dict[str, Any]:
    (only,) = [one for one in built(overlay) if one["kind"] == kind]
    return only


def pod(overlay: str) -> dict[str, Any]:
    spec: dict[str, Any] = of_kind(overlay, "Deployment")["spec"]["template"]["spec"]
    return spec


def container(overlay: str) -> dict[str, Any]:
    (only,) = pod(overlay)["containers"]
    one: dict[str, Any] = only
    return one


def named(text: str, folder: Path) -> Path:
    """A settings file with a project in place of the example's, which Costguard refuses."""
    file = folder / "costguard.toml"
    file.write_text(text.replace("my-project", "ml-lab-prod"))
    return file


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_have_no_rights(overlay: str) -> None:
    """The restricted Pod Security Standard: the image's own user, no capability, nothing writable but two volumes."""
    user = re.search(r"^USER (\d+):(\d+)$", final_stage(), re.MULTILINE)
    assert user
    security = pod(overlay)["securityContext"]
    assert security["runAsNonRoot"] is True
    assert (security["runAsUser"], security["runAsGroup"]) == (int(user[1]), int(user[2]))
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod(overlay)["automountServiceAccountToken"] is False
    assert container(overlay)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
    }
    labels = of_kind(overlay, "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_can_write_where_the_image_works(overlay: str) -> None:
    """The image's working folder and /tmp are volumes that may be written, and no others are."""
    work = re.search(r"^WORKDIR (\S+)$", final_stage(), re.MULTILINE)
    assert work
    empty = {volume["name"] for volume in pod(overlay)["volumes"] if "emptyDir" in volume}
    mounts = container(overlay)["volumeMounts"]
    assert {mount["mountPath"] for mount in mounts if mount["name"] in empty} == {work[1], "/tmp"}
    assert all(mount.get("readOnly") is True for mount in mounts if mount["name"] not in empty)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_probes_ask_the_image_for_its_own_health(overlay: str) -> None:
    """Every probe asks /healthz, as the image's health check does: /readyz is 503 until a project was read."""
    (port,) = container(overlay)["ports"]
    assert f"EXPOSE {port['containerPort']}\n" in CONTAINERFILE
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container(overlay)[name]["httpGet"] == {"path": "/healthz", "port": port["name"]}
    (served,) = of_kind(overlay, "Service")["spec"]["ports"]
    assert served["targetPort"] == port["name"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_image_is_of_this_version(overlay: str) -> None:
    """The tag is the version of this checkout; a tag such as latest would change under a running release."""
    assert container(overlay)["image"] == f"costguard.example/costguard:{__version__}"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_selectors_find_the_pods(overlay: str) -> None:
    """The Deployment, the Service, the budget and the spread select the Pods by labels that they have."""
    labels = of_kind(overlay, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
    selectors = [
        of_kind(overlay, "Service")["spec"]["selector"],
        of_kind(overlay, "Deployment")["spec"]["selector"]["matchLabels"],
        *(one["spec"]["selector"]["matchLabels"] for one in built(overlay) if one["kind"] == "PodDisruptionBudget"),
        *(spread["labelSelector"]["matchLabels"] for spread in pod(overlay).get("topologySpreadConstraints", [])),
    ]
    assert all(selector and selector.items() <= labels for selector in selectors)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_network_is_closed_but_for_what_is_named(overlay: str) -> None:
    """The policy lets in Pods of the namespace alone, and each way out names its addresses and ports."""
    policy = of_kind(overlay, "NetworkPolicy")["spec"]
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert policy["podSelector"] == {}
    assert policy["ingress"] == [{"from": [{"podSelector": {}}], "ports": [{"port": 8765, "protocol": "TCP"}]}]
    assert all(rule["to"] and rule["ports"] for rule in policy.get("egress", []))
    if overlay == "demo":
        assert not policy.get("egress")
    everywhere = [
        port["port"]
        for rule in policy.get("egress", [])
        if any(peer.get("ipBlock", {}).get("cidr") == "0.0.0.0/0" for peer in rule["to"])
        for port in rule["ports"]
    ]
    assert everywhere == ([] if overlay == "demo" else [443])


def test_two_replicas_outlive_a_drain_and_are_never_of_two_versions() -> None:
    """The budget lets one of two be evicted at a time; an upgrade ends the old ones before it starts the new."""
    deployment = of_kind("postgresql", "Deployment")["spec"]
    assert deployment["strategy"] == {"type": "Recreate"}
    assert deployment["replicas"] == 2
    assert of_kind("postgresql", "PodDisruptionBudget")["spec"]["minAvailable"] == 1


def test_settings_load_with_the_secret_as_files(tmp_path: Path) -> None:
    """The overlay's settings are valid, and the secrets are found as files of the folder that the Pod names."""
    environ = {variable["name"]: variable["value"] for variable in container("postgresql")["env"]}
    mounted = {mount["name"]: mount["mountPath"] for mount in container("postgresql")["volumeMounts"]}
    assert environ["CREDENTIALS_DIRECTORY"] == mounted["secrets"]
    assert f"COSTGUARD_CONFIG={mounted['settings']}/{SETTINGS.name}" in CONTAINERFILE
    (tmp_path / TOKEN).write_text("a-token-that-nobody-guesses")
    (tmp_path / DATABASE).write_text("postgresql://costguard:secret@10.0.0.5:5432/costguard")
    settings = load(named(SETTINGS.read_text(), tmp_path), {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert settings.server.port == container("postgresql")["ports"][0]["containerPort"]
    assert not settings.server.is_loopback
    assert "10.0.0.5" in settings.database.url.get_secret_value()
    assert settings.enforcement.shadow


def test_settings_that_are_commented_out_are_real_ones(tmp_path: Path) -> None:
    """A person who removes the comment signs gets settings that load."""
    file = named(re.sub(r"(?m)^# (?=\[|\w+ = )", "", SETTINGS.read_text()), tmp_path)
    secrets = {"COSTGUARD_SLACK_TOKEN": "xoxb-1", "COSTGUARD_SLACK_APP_TOKEN": "xapp-1"}
    settings = load(file, {TOKEN: "a-token-that-nobody-guesses", "COSTGUARD_OIDC_CLIENT_SECRET": "s", **secrets})
    assert settings.slack is not None


def test_secrets_that_the_overlay_names_are_read() -> None:
    """The command that makes the Secret uses names of variables that Costguard reads."""
    text = (KUSTOMIZE / "overlays/postgresql/kustomization.yaml").read_text()
    named = set(re.findall(r"--from-literal=(\w+)=", text))
    assert {TOKEN, DATABASE} <= named <= set(VARIABLES)
