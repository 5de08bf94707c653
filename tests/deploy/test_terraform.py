"""The Terraform files: the least rights, from Costguard's own list; nothing open; settings that Costguard loads."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.terraform import (
    FILES,
    TERRAFORM,
    blocks,
    local_values,
    resources,
    run_terraform,
)

from costguard.doctor.feed_setup import FILTER, SUBSCRIBER, VIEWER, FeedPlan, commands
from costguard.doctor.permissions import ROLES, STOP_KEPT_ROLE, held_by
from costguard.model.keeper import STOPPED_THROUGH
from costguard.settings import load
from costguard.settings.environment import VARIABLES

SECRETS = {
    "COSTGUARD_TOKEN": "a-token-that-nobody-guesses",
    "COSTGUARD_SLACK_TOKEN": "xoxb-1",
    "COSTGUARD_SLACK_APP_TOKEN": "xapp-1",
    "COSTGUARD_OIDC_CLIENT_SECRET": "secret",
}
NAME = "costguard-events"
# Google's own roles, each on one thing: the resource that grants it, the role, and to whom.
GRANTED = {
    ("google_service_account_iam_member", "roles/iam.serviceAccountUser"),  # on the accounts of jobs' VMs
    ("google_service_account_iam_member", "roles/iam.workloadIdentityUser"),  # on Costguard's own account
    ("google_storage_bucket_iam_member", "roles/storage.objectUser"),  # on the bucket of code
    ("google_secret_manager_secret_iam_member", "roles/secretmanager.secretAccessor"),  # on each secret of its own
    ("google_iap_tunnel_instance_iam_member", "roles/iap.tunnelResourceAccessor"),  # people, to the VM
    ("google_iap_web_cloud_run_service_iam_member", "roles/iap.httpsResourceAccessor"),  # people, to the service
    ("google_cloud_run_v2_service_iam_member", "roles/run.invoker"),  # Identity-Aware Proxy, to the service
    ("google_pubsub_topic_iam_member", "roles/pubsub.publisher"),  # the sinks and Costguard, to their topic
    ("google_pubsub_subscription_iam_member", "${each.value}"),  # Costguard, to its subscription
}


def test_roles_are_those_of_the_list() -> None:
    """Each custom role of Costguard's list is made from its file, under its name; no permission stands in Terraform."""
    assert local_values()["files"] == {role.name: role.file for role in ROLES if role.file}
    roles = resources("google_project_iam_custom_role")
    assert roles["costguard"]["permissions"] == "${local.roles[each.value.role].permissions}"
    assert list(roles) == ["costguard"]
    names = {permission for role in ROLES for permission in held_by(role)}
    assert [name for name in names for file in FILES if f'"{name}"' in file.read_text()] == []


def test_watching_alone_is_the_default_and_grants_the_reading_role_only() -> None:
    """Stopping and launching are off by default, and each other role waits for its own variable."""
    defaults = {labels[0]: body.get("default") for file, labels, body in blocks("variable") if file.parent == TERRAFORM}
    assert (defaults["stop"], defaults["stop_through"], defaults["launch"]) == (False, [], False)
    assert local_values()["is_on"] == {
        "costguard": True,
        "costguardStop": "${var.stop}",
        "costguardStopKept": "${length(var.stop_through) > 0}",
        "costguardLaunch": "${var.launch}",
        "costguardDiscovery": '${var.organization != ""}',
    }
    for name in ("act_as", "workload_identity"):
        body = resources("google_service_account_iam_member")[name]
        assert "var.launch" in body.get("for_each", "") or "var.workload_identity" in body["count"]


def test_keepers_have_their_own_permissions_of_the_file() -> None:
    """Each permission of the role for keepers belongs to one keeper that the settings know."""
    keepers = local_values()["keepers"]
    assert set(keepers) == {kind.value for kind in STOPPED_THROUGH}
    of_each = {
        name: [one for one in held_by(STOP_KEPT_ROLE) if one.startswith(begin)] for name, begin in keepers.items()
    }
    assert all(of_each.values())
    assert sorted(one for names in of_each.values() for one in names) == held_by(STOP_KEPT_ROLE)


def test_google_s_own_roles_are_granted_on_single_things() -> None:
    """No role of Google's is granted on a project, none is primitive, and nobody else's grants are taken away."""
    granted = {
        (labels[0], body["role"])
        for _, labels, body in blocks("resource")
        if "_iam_" in labels[0] and not labels[0].endswith("_iam_custom_role")
    }
    in_organization = (
        "google_organization_iam_member",
        "${google_organization_iam_custom_role.costguard[each.key].name}",
    )
    granted.remove(in_organization)
    granted.remove(
        ("google_folder_iam_member", "${google_organization_iam_custom_role.costguard[each.value.role].name}")
    )
    on_projects = {pair for pair in granted if pair[0] == "google_project_iam_member"}
    assert on_projects == {("google_project_iam_member", "${google_project_iam_custom_role.costguard[each.key].name}")}
    assert granted - on_projects == GRANTED
    kinds = {labels[0] for _, labels, _ in blocks("resource")}
    assert [kind for kind in kinds if kind.endswith(("_iam_binding", "_iam_policy", "_key"))] == []
    assert not re.search(r"allUsers|allAuthenticatedUsers", "".join(file.read_text() for file in FILES))


def test_no_secret_is_in_the_state() -> None:
    """Passwords are made for one run and written by write-only arguments; the settings hold no secret."""
    versions = resources("google_secret_manager_secret_version")
    assert {name for name, body in versions.items() if "secret_data" in body} == {"settings"}
    assert all("secret_data_wo" in body for name, body in versions.items() if name != "settings")
    assert all("password" not in body for body in resources("google_sql_user").values())
    assert {labels[0] for _, labels, _ in blocks("ephemeral")} == {"random_password"}
    assert not any(labels[0].startswith("random_") for _, labels, _ in blocks("resource"))


def test_secrets_are_variables_that_costguard_reads() -> None:
    """The VM and Cloud Run hand secrets on under the names that the settings look for."""
    named = set(re.findall(r"\bCOSTGUARD_[A-Z_]+", (TERRAFORM / "secrets.tf").read_text())) - {"COSTGUARD_SLACK_"}
    assert named == {*SECRETS, "COSTGUARD_DATABASE_URL"}
    assert named <= set(VARIABLES)


def test_vm_is_reached_through_the_proxy_alone() -> None:
    """The VM has no external address, and the one rule of its network lets Identity-Aware Proxy's addresses in."""
    (vm,) = resources("google_compute_instance").values()
    assert set(vm["network_interface"][0]) - {"__is_block__"} == {"subnetwork"}
    assert set(vm["shielded_instance_config"][0].values()) == {True}
    assert {name: rule["source_ranges"] for name, rule in resources("google_compute_firewall").items()} == {
        "iap": ["35.235.240.0/20"]
    }
    (disk,) = resources("google_compute_disk").values()
    assert disk["lifecycle"][0]["prevent_destroy"] is True
    assert len(resources("google_compute_disk_resource_policy_attachment")) == 1


def test_cloud_run_watches_between_requests() -> None:
    """Cloud Run keeps one instance there with its CPU on, and the database has backups and no public address."""
    (service,) = resources("google_cloud_run_v2_service").values()
    template = service["template"][0]
    assert template["scaling"][0]["min_instance_count"] == 1
    assert template["containers"][0]["resources"][0]["cpu_idle"] is False
    (database,) = resources("google_sql_database_instance").values()
    settings = database["settings"][0]
    assert settings["ip_configuration"][0]["ipv4_enabled"] is False
    assert settings["ip_configuration"][0]["ssl_mode"] == "ENCRYPTED_ONLY"
    assert settings["backup_configuration"][0]["enabled"] is True
    assert settings["backup_configuration"][0]["point_in_time_recovery_enabled"] is True


def _sinks() -> list[dict[str, Any]]:
    return [resources(f"google_logging_{place}_sink")["events"] for place in ("organization", "folder")]


def test_sinks_take_nothing_from_other_sinks() -> None:
    """A sink includes what is below the organisation or the folder, and never intercepts it."""
    for sink in _sinks():
        assert sink["include_children"] is True
        assert "intercept_children" not in sink
        assert sink["filter"] == "${trimspace(local.sink_filter)}"


def test_events_are_what_the_printed_commands_make() -> None:
    """Names, filter, how long messages stay and who may do what are those of `costguard google-feed`."""
    plan = FeedPlan("--organization=1", "acme-operations", "guard@acme-operations.iam.gserviceaccount.com", NAME)
    lines = list(commands(plan))
    assert f"    {FILTER}\n" in (TERRAFORM / "events.tf").read_text()
    named = [resources(f"google_pubsub_{kind}")["events"]["name"] for kind in ("topic", "subscription")]
    assert {*named, *(sink["name"] for sink in _sinks())} == {NAME}
    subscription = resources("google_pubsub_subscription")["events"]
    assert subscription["ack_deadline_seconds"] == 60
    assert subscription["message_retention_duration"] == f"{7 * 24 * 3600}s"
    assert subscription["expiration_policy"][0]["ttl"] == ""
    (line,) = [line for line in lines if "subscriptions create" in line]
    assert {"--ack-deadline=60", "--message-retention-duration=7d", "--expiration-period=never"} <= set(line.split())
    on_topic, on_subscription = (resources(f"google_pubsub_{kind}_iam_member") for kind in ("topic", "subscription"))
    assert {name: one["member"] for name, one in on_topic.items()} == {
        "sink": "${each.value}",
        "costguard": "${local.account.member}",
    }
    assert "writer_identity" in str(local_values()["writers"])
    printed = {role for line in lines if "subscriptions add-iam" in line for role in re.findall(r"--role=(\S+)", line)}
    assert (
        set(re.findall(r'"(roles/[^"]+)"', on_subscription["costguard"]["for_each"]))
        == printed
        == {
            SUBSCRIBER,
            VIEWER,
        }
    )


def test_events_are_made_only_where_they_are_asked_for() -> None:
    """No sink, topic or right is made by default, nor for an organisation whose projects are only found."""
    defaults = {labels[0]: body.get("default") for file, labels, body in blocks("variable") if file.parent == TERRAFORM}
    assert (defaults["organization"], defaults["folders"], defaults["events"]) == ("", [], False)
    assert local_values()["has_events"] == '${var.organization != "" && var.events}'
    made = [
        body
        for file, labels, body in blocks("resource")
        if file.name == "events.tf" and labels != ["google_pubsub_topic_iam_member", "sink"]
    ]
    assert len(made) == 6
    assert all("local.has_events" in body.get("count", body.get("for_each", "")) for body in made)


def test_everything_is_described_and_pinned() -> None:
    """Variables and outputs say what they are; providers keep to one major version."""
    described = [*blocks("variable"), *blocks("output")]
    assert len(described) > 30
    assert [labels for _, labels, body in described if not body.get("description", "").endswith((".", "none."))] == []
    assert [labels for _, labels, body in blocks("variable") if "type" not in body] == []
    versions = re.findall(r'^\s+version = "(.*)"$', (TERRAFORM / "versions.tf").read_text(), re.MULTILINE)
    assert len(versions) == 2
    assert all(version.startswith("~> ") for version in versions)


def test_terraform_formats_nothing() -> None:
    """`terraform fmt` leaves the files as they are."""
    assert run_terraform(TERRAFORM, "fmt", "-check", "-recursive") == ""


@pytest.mark.parametrize(
    "variables",
    [
        {"where": "vm", "url": "http://localhost:8765"},
        {"where": "vm", "url": "http://localhost:8765", "slack_channel": "#gpu-costs", "owner_domain": "example.com"},
        {"where": "vm", "url": "http://localhost:8765", "oidc_client_id": "1-a.apps.googleusercontent.com"},
        {"where": "elsewhere", "stop_through": ["group", "workbench", "workstation"], "operators": ["ana@example.com"]},
        {
            "where": "cloud-run",
            "url": "https://costguard-1.us-central1.run.app",
            "iap_audience": "/projects/1/locations/us-central1/services/costguard",
            "viewers": ["@example.com"],
            "admins": ["boss@example.com"],
        },
        {
            "where": "cloud-run",
            "url": "https://costguard-1.us-central1.run.app",
            "guard_url": "https://costguard-1.us-central1.run.app",
            "code": "gs://acme-costguard/code",
            "oidc_client_id": "1-a.apps.googleusercontent.com",
            "slack_channel": "#gpu-costs",
        },
    ],
    ids=lambda variables: "-".join(sorted(variables)),
)
def test_settings_that_it_writes_are_loaded(variables: dict[str, Any], tmp_path: Path) -> None:
    """Terraform itself makes the file, and Costguard's own loader takes it, with what the variables say."""
    folder = tmp_path / "settings"
    shutil.copytree(TERRAFORM / "settings", folder, ignore=shutil.ignore_patterns(".terraform*"))
    run_terraform(
        folder, "apply", "-auto-approve", "-input=false", projects=["ml-lab-prod", "ml-lab-test"], **variables
    )
    file = tmp_path / "costguard.toml"
    file.write_text(json.loads((folder / "terraform.tfstate").read_text())["outputs"]["toml"]["value"])
    settings = load(file, SECRETS)
    assert [*settings.watch.projects] == ["ml-lab-prod", "ml-lab-test"]
    assert settings.enforcement.shadow
    assert {kind.value for kind in settings.enforcement.stop_through} == set(variables.get("stop_through", []))
    assert (settings.slack is not None) is ("slack_channel" in variables)
    assert settings.server.is_loopback is (variables["where"] == "elsewhere")
    assert settings.jobs.guard_url == variables.get("guard_url")
    assert settings.sign_in.iap_audience == variables.get("iap_audience")
    assert settings.watch.scope.places == ()
    assert settings.feed.subscription is None


@pytest.mark.parametrize(
    ("variables", "places", "projects"),
    [
        ({"projects": [], "organization": "123"}, ("organizations/123",), ()),
        (
            {"projects": ["partner-lab"], "organization": "123", "folders": ["7", "8"]},
            ("folders/7", "folders/8"),
            ("partner-lab",),
        ),
    ],
    ids=["organisation", "folders"],
)
def test_settings_of_an_organisation(
    variables: dict[str, Any], places: tuple[str, ...], projects: tuple[str, ...], tmp_path: Path
) -> None:
    """The settings search the organisation, or its folders alone, and pull the subscription that is made."""
    folder = tmp_path / "settings"
    shutil.copytree(TERRAFORM / "settings", folder, ignore=shutil.ignore_patterns(".terraform*"))
    subscription = f"projects/acme-operations/subscriptions/{NAME}"
    more = {"where": "elsewhere", "subscription": subscription}
    run_terraform(folder, "apply", "-auto-approve", "-input=false", **variables, **more)
    file = tmp_path / "costguard.toml"
    file.write_text(json.loads((folder / "terraform.tfstate").read_text())["outputs"]["toml"]["value"])
    settings = load(file, SECRETS)
    assert (settings.watch.scope.places, tuple(settings.watch.projects)) == (places, projects)
    assert settings.feed.subscription == subscription


def test_files_of_roles_are_what_terraform_reads() -> None:
    """yamldecode and Costguard's tests see the same keys in them."""
    for role in ROLES:
        if role.file:
            read = yaml.safe_load((TERRAFORM.parent / role.file).read_text())
            assert read["includedPermissions"] == held_by(role)
    used = set(re.findall(r"role\.(\w+)", (TERRAFORM / "roles.tf").read_text()))
    assert used & {"title", "description", "includedPermissions"} == {"title", "description", "includedPermissions"}
