"""The files that install Costguard elsewhere: whole, without secrets, and in step with the code."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import trove_classifiers

from costguard.gce import actions, kept, networks, placement_policies
from costguard.gce.vertex import stops
from costguard.settings import example, load
from costguard.settings.environment import CONFIG, DATABASE, VARIABLES, WEBHOOK_SECRET

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()


def parsed(name: str) -> Any:
    yaml = pytest.importorskip("yaml", reason="no YAML reader is installed")
    return yaml.safe_load((DEPLOY / name).read_text())


def final_stage() -> str:
    return CONTAINERFILE[CONTAINERFILE.rindex("\nFROM ") :]


def test_everything_copied_exists() -> None:
    """Each thing that the container file copies from the repository is there, and is let into the build."""
    let_in = {line[1:] for line in (DEPLOY / "Containerfile.dockerignore").read_text().splitlines() if line[:1] == "!"}
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", CONTAINERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    ]
    assert set(copied) == let_in
    assert [source for source in copied if not (ROOT / source).exists()] == []


def test_image_runs_as_a_number_that_is_not_root() -> None:
    """The image's user is a number other than 0, and its data folder belongs to that user."""
    user = re.search(r"^USER (\d+):(\d+)$", final_stage(), re.MULTILINE)
    assert user
    assert user[1] != "0"
    assert f"chown {user[1]}:{user[2]} /data" in final_stage()


def test_image_installs_by_hash() -> None:
    """Nothing enters the image but what the lock names by its hash, and Costguard itself."""
    installs = re.findall(r"^RUN pip .*$", CONTAINERFILE, re.MULTILINE)
    assert all("--require-hashes" in line or "--no-deps ." in line for line in installs)
    assert "pip" not in final_stage().replace("--pip", "")


def test_image_checks_its_health() -> None:
    """The image asks its own /healthz on the port that it exposes."""
    port = re.search(r"^EXPOSE (\d+)$", final_stage(), re.MULTILINE)
    assert port
    assert f"http://127.0.0.1:{port[1]}/healthz" in final_stage()


@pytest.mark.parametrize(
    "file", sorted(file for file in DEPLOY.glob("[!.]*") if file.is_file()), ids=lambda file: file.name
)
def test_no_secrets(file: Path) -> None:
    """No file sets a password or token, save the demo's, which opens nothing but a simulated fleet."""
    given = re.findall(
        r"^\s*([A-Z_]*(?:TOKEN|PASSWORD|SECRET|KEY))[ \t]*[:=][ \t]*(\S+)", file.read_text(), re.MULTILINE
    )
    assert [pair for pair in given if not pair[1].startswith("${") and pair[1] != "demo-on-this-computer"] == []


def test_secrets_file_is_ignored_by_git() -> None:
    """The file that people fill with secrets cannot be committed by accident."""
    assert "/deploy/.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_settings_that_the_compose_file_asks_for(tmp_path: Path) -> None:
    """The example with the listening address that the Compose file tells of is accepted with a token."""
    listen = re.search(r'listen = "[^"]+"', (DEPLOY / "compose.yaml").read_text())
    assert listen
    file = tmp_path / "costguard.toml"
    file.write_text(re.sub(r'# (listen) = "[^"]+"', listen[0], example().replace("my-project", "ml-lab-prod")))
    settings = load(file, {"COSTGUARD_TOKEN": "a-token-that-nobody-guesses"})
    assert settings.server.port == 8765
    assert not settings.server.is_loopback


def test_every_secret_has_its_place() -> None:
    """The example has each secret that the settings read from the environment, and the Compose file hands it on."""
    files = ("env.example", "compose.yaml")
    environment = parsed("compose.yaml")["services"]["costguard"]["environment"]
    variables = set(re.findall(r"^([A-Z_]+)=$", (DEPLOY / "env.example").read_text(), re.MULTILINE))
    assert variables == {*VARIABLES, "POSTGRES_PASSWORD"} - {CONFIG, DATABASE, WEBHOOK_SECRET}
    assert set(environment) == set(VARIABLES) - {CONFIG, WEBHOOK_SECRET}
    # Of those with a name in them there may be any number: both files show what one looks like.
    assert all(re.search(rf"^\s*# {WEBHOOK_SECRET}[=:]", (DEPLOY / file).read_text(), re.MULTILINE) for file in files)
    assert all(f"${{{variable}:" in environment[variable] for variable in variables - {"POSTGRES_PASSWORD"})


def test_time_zones_come_along() -> None:
    """A system without a time zone database, as slim images are, knows people's zones all the same."""
    ask = "from zoneinfo import ZoneInfo; print(ZoneInfo('Europe/Rome').key)"
    done = subprocess.run([sys.executable, "-c", ask], env={"PYTHONTZPATH": ""}, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "Europe/Rome"


@pytest.mark.parametrize("name", ["compose.yaml", "compose.demo.yaml"])
def test_compose_files(name: str) -> None:
    """Ports are published to this machine alone, containers are read-only, and waiting has something to wait for."""
    services = parsed(name)["services"]
    for service_name, service in services.items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), service_name
        assert set(service.get("depends_on", {})) <= set(services), service_name
        if service["image"] == "costguard":
            assert service["read_only"] is True, service_name
            assert service["cap_drop"] == ["ALL"], service_name
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file(), service_name
    for service_name, service in services.items():
        for other, wait in service.get("depends_on", {}).items():
            if wait["condition"] == "service_healthy":
                assert "test" in services[other]["healthcheck"], service_name


@pytest.mark.parametrize("name", ["compose.yaml", "compose.demo.yaml"])
def test_podman_accepts_the_compose_files(name: str) -> None:
    """It refuses other options of a tmpfs than these, such as uid= (ProcessOptions in its pkg/util/mountOpts.go)."""
    accepted = {"exec", "noexec", "suid", "nosuid", "dev", "nodev", "rw", "ro", "size", "mode"}
    for service_name, service in parsed(name)["services"].items():
        for mount in service.get("tmpfs", []):
            options = [option.partition("=")[0] for option in mount.partition(":")[2].split(",") if option]
            assert set(options) <= accepted, service_name


def test_image_says_what_it_is() -> None:
    """The labels that registries show (OCI image specification, annotations.md)."""
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', final_stage()))
    assert labels["licenses"] == "Apache-2.0"
    assert {"title", "description", "version", "revision", "created"} <= set(labels)


def test_role_only_reads() -> None:
    """The role for Google Cloud holds permissions to get and list, and to read Google's advice, and no other."""
    role = parsed("iam-role.yaml")
    assert role["stage"] == "GA"
    reading = re.compile(r"[a-z]+\.[a-zA-Z]+\.(get|list)|compute\.advice\.capacity(?:History)?")
    assert all(reading.fullmatch(permission) for permission in role["includedPermissions"])
    assert role["includedPermissions"] == sorted(set(role["includedPermissions"]))


def test_role_for_stopping_holds_what_the_code_asks_for() -> None:
    """Each call that changes a VM has its permission in a role of its own, and that role holds nothing else."""
    role = parsed("iam-role-stop.yaml")
    calls = re.findall(r'\.begin\("(\w+)"', inspect.getsource(actions.ComputeActuator))
    assert calls
    assert role["includedPermissions"] == sorted({f"compute.instances.{verb}" for verb in calls})
    assert role["stage"] == "GA"


def test_role_for_stops_of_keepers_holds_what_the_code_asks_for() -> None:
    """Reads are `get`, a listing of a group's VMs too; `stopInstances` is an update of the group."""
    role = parsed("iam-role-stop-kept.yaml")
    source = inspect.getsource(kept.KeptStops)
    calls = {"get", "list_managed_instances", "stop_instances"}
    assert calls == set(re.findall(r'client, "(\w+)"', source))
    wanted = ["compute.instanceGroupManagers.get", "compute.instanceGroupManagers.update"]
    read = re.findall(r'"(\w+)OperationsClient"', source)
    wanted += [f"compute.{scope.lower()}Operations.get" for scope in read]
    assert source.count(':stop"') == source.count("/operations/{operation}") == 1
    services = ("notebooks.instances", "workstations.workstations")
    wanted += [f"{name}.{verb}" for name in services for verb in ("get", "stop")]
    wanted += [f"{name.partition('.')[0]}.operations.get" for name in services]
    verbs = re.findall(r"{path}:(\w+)", inspect.getsource(stops))
    assert verbs == ["cancel", "stop", "undeployModel"]
    wanted += ["aiplatform.customJobs.cancel", "aiplatform.notebookRuntimes.update", "aiplatform.endpoints.undeploy"]
    assert role["includedPermissions"] == sorted(wanted)
    assert role["stage"] == "GA"


def test_role_for_launching_holds_what_the_code_asks_for() -> None:
    """Each call for the VMs of jobs, and each part of a VM to be made, has its permission; the role holds no more."""
    launcher = inspect.getsource(actions.ComputeLauncher)
    methods = set(re.findall(r"self\._official\.(\w+)\(", launcher))
    verbs = set(re.findall(r'\.begin\("(\w+)"', launcher))
    assert methods == {"insert", "begin", "operation", "region"}
    wanted = {f"compute.instances.{verb}" for verb in verbs}
    wanted |= {"compute.instances.create", "compute.instances.get", "compute.regions.get", "compute.zoneOperations.get"}
    parts = {
        "source_image": "images.useReadOnly",
        "disks": "disks.create",
        "labels": "instances.setLabels",
        "metadata": "instances.setMetadata",
        "service_accounts": "instances.setServiceAccount",
        "subnetwork": "subnetworks.use",
        "access_configs": "subnetworks.useExternalIp",
    }
    called = re.findall(r'"(\w+)Client", "(\w+)"', inspect.getsource(networks))
    wanted |= {f"compute.{resource.lower()}.{verb}" for resource, verb in called}
    body = inspect.getsource(actions)
    wanted |= {f"compute.{permission}" for part, permission in parts.items() if f'"{part}"' in body}
    policies = inspect.getsource(placement_policies)
    verbs = set(re.findall(r'_CLIENT, "(\w+)"', policies))
    wanted |= {f"compute.resourcePolicies.{'create' if verb == 'insert' else verb}" for verb in verbs}
    wanted |= {"compute.resourcePolicies.use"} if '"resource_policies"' in policies else set()
    wanted |= {"compute.reservations.get", "compute.futureReservations.list"}  # of gce/reservations.py
    # Of gce/vm_groups.py: resize requests, their cancel and the deletion of VMs are updates of the group.
    wanted |= {f"compute.instanceTemplates.{verb}" for verb in ("create", "delete", "get", "useReadOnly")}
    wanted |= {f"compute.instanceGroupManagers.{verb}" for verb in ("create", "delete", "get", "update")}
    wanted |= {"compute.acceleratorTypes.get", "compute.images.get", "compute.images.getFromFamily"}  # of the doctor
    role = parsed("iam-role-launch.yaml")
    assert role["includedPermissions"] == sorted(wanted)
    assert role["stage"] == "GA"


def test_unit_is_hardened() -> None:
    """The service unit runs without root, capabilities or a writable system, and checks the settings first."""
    lines = set((DEPLOY / "costguard.service").read_text().splitlines())
    wanted = {"DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet="}
    assert wanted <= lines
    assert "ExecStartPre=/opt/costguard/bin/costguard config check" in lines


def test_unit_is_accepted_by_systemd(tmp_path: Path) -> None:
    """systemd-analyze finds nothing wrong with it, the program it starts aside, which is not installed here."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not here, which the service unit is verified with")
    unit = tmp_path / "costguard.service"
    text = (DEPLOY / "costguard.service").read_text()
    unit.write_text(re.sub(r"(?m)^(Exec\w+=)/opt/costguard/bin/costguard", r"\1/bin/true", text))
    done = subprocess.run([tool, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_unit_hands_on_every_secret_as_a_credential() -> None:
    """The names are those that the settings look for in systemd's folder of credentials."""
    lines = (DEPLOY / "costguard.service").read_text().splitlines()
    handed_on = {line.partition("=")[2] for line in lines if line.startswith("LoadCredential=")}
    assert handed_on == set(VARIABLES) - {CONFIG, WEBHOOK_SECRET}
    assert f"# LoadCredential={WEBHOOK_SECRET}" in lines
    assert "Type=notify" in lines


def test_package_says_what_it_is() -> None:
    """An index shows its licence, its versions of Python and its addresses; every classifier is a known one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    minors = {classifier.rpartition(".")[2] for classifier in project["classifiers"] if ":: Python :: 3." in classifier}
    assert minors == {"11", "12", "13", "14"}
    assert set(project["classifiers"]) <= trove_classifiers.classifiers
    assert {"Documentation", "Changelog", "Issues", "Source"} <= set(project["urls"])
    assert {"gpu", "google-cloud", "cost"} <= set(project["keywords"])
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
