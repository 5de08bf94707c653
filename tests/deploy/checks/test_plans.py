"""Plans by Terraform itself, with the google provider's schema: what each set-up would make, grant and write down."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.checks.planning import Planner, planner_in
from tests.deploy.test_terraform import GRANTED, NAME, SECRETS

from costguard.doctor.feed_setup import FILTER
from costguard.doctor.permissions import LAUNCH_ROLE, READ_ROLE, STOP_KEPT_ROLE, STOP_ROLE, held_by
from costguard.settings import load

ENVIRONMENT = Path(os.environ.get("COSTGUARD_DEPLOY_CHECKS", "nowhere"))
pytestmark = pytest.mark.skipif(not ENVIRONMENT.is_dir(), reason="`make deploy-checks` plans with Terraform")

WHEEL = "https://example.com/costguard-0.1.0-py3-none-any.whl#sha256=" + "a" * 64
IMAGE = "costguard.example/costguard@sha256:" + "b" * 64
WATCHING: dict[str, Any] = {
    "project": "acme-operations",
    "projects": ["ml-lab-prod", "ml-lab-test"],
    "people": ["group:ml@example.com"],
}
VM = {**WATCHING, "where": "vm", "package": WHEEL}
CLOUD_RUN = {**WATCHING, "where": "cloud-run", "image": IMAGE}
ELSEWHERE = {**WATCHING, "where": "elsewhere"}
JOBS: dict[str, Any] = {
    "launch": True,
    "vm_accounts": ["trainer@ml-lab-prod.iam.gserviceaccount.com"],
    "code_bucket": "acme-code",
}
READING = re.compile(r"[a-z]+\.[A-Za-z]+\.(get|list)|compute\.advice\.capacity(?:History)?")


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Planner:
    folder = tmp_path_factory.mktemp("plans")
    (folder / "deploy").mkdir()
    return planner_in(folder, ENVIRONMENT)


def made(plan: dict[str, Any], kind: str = "") -> list[dict[str, Any]]:
    """The resources that a plan makes, of one type or of all, with what is known of them."""
    changes = [one for one in plan["resource_changes"] if one["mode"] == "managed" and kind in ("", one["type"])]
    assert all(one["change"]["actions"] == ["create"] for one in changes)
    return [{"type": one["type"], "address": one["address"], **one["change"]["after"]} for one in changes]


def granted(plan: dict[str, Any]) -> dict[str, set[str]]:
    """The permissions of each custom role, and the projects in which it is made."""
    roles: dict[str, set[str]] = {}
    for role in made(plan, "google_project_iam_custom_role"):
        roles.setdefault(role["role_id"], set()).update(role["permissions"])
    return roles


def loaded(plan: dict[str, Any], folder: Path) -> Any:
    """The settings that the plan writes, as Costguard's own loader takes them."""
    file = folder / "costguard.toml"
    file.write_text(plan["planned_values"]["outputs"]["settings"]["value"])
    return load(file, SECRETS)


@pytest.mark.parametrize("variables", [VM, CLOUD_RUN, ELSEWHERE], ids=["vm", "cloud-run", "elsewhere"])
def test_watching_alone_grants_nothing_that_changes_anything(
    variables: dict[str, Any], planner: Planner, tmp_path: Path
) -> None:
    """Watched projects get the reading role alone; Costguard's own its secrets, and people a way to its pages."""
    plan = planner.plan(**variables)
    assert granted(plan) == {READ_ROLE.name: set(held_by(READ_ROLE))}
    assert all(READING.fullmatch(name) for names in granted(plan).values() for name in names)
    in_projects = made(plan, "google_project_iam_member")
    assert {one["project"] for one in in_projects} == set(WATCHING["projects"])
    assert len(in_projects) == len(WATCHING["projects"])
    others = {
        (one["type"], one["role"])
        for one in made(plan)
        if "_iam_" in one["type"] and one["type"] not in ("google_project_iam_custom_role", "google_project_iam_member")
    }
    ways_in = {pair for pair in GRANTED if "_iap_" in pair[0] or "_secret_" in pair[0] or "_run_" in pair[0]}
    assert others <= ways_in
    assert ("google_service_account_iam_member", "roles/iam.serviceAccountUser") not in others
    settings = loaded(plan, tmp_path)
    assert [*settings.watch.projects] == WATCHING["projects"]
    assert settings.enforcement.shadow


def test_elsewhere_is_accounts_and_roles_alone(planner: Planner) -> None:
    """Nothing runs and nothing is stored there: it costs nothing."""
    assert {one["type"] for one in made(planner.plan(**ELSEWHERE))} == {
        "google_project_service",
        "google_service_account",
        "google_project_iam_custom_role",
        "google_project_iam_member",
    }


def test_stopping_adds_its_roles_alone(planner: Planner, tmp_path: Path) -> None:
    """The role for keepers holds the permissions of the keeper that stop_through names, and no others."""
    plan = planner.plan(**VM, stop=True, stop_through=["group"])
    assert granted(plan) == {
        READ_ROLE.name: set(held_by(READ_ROLE)),
        STOP_ROLE.name: set(held_by(STOP_ROLE)),
        STOP_KEPT_ROLE.name: {name for name in held_by(STOP_KEPT_ROLE) if name.startswith("compute.")},
    }
    assert [kind.value for kind in loaded(plan, tmp_path).enforcement.stop_through] == ["group"]
    assert {one["account_id"] for one in made(plan, "google_service_account")} - {None} >= {
        "costguard-watch",
        "costguard-stop",
    }


def test_launching_adds_its_role_and_the_accounts_of_vms(planner: Planner, tmp_path: Path) -> None:
    """Costguard may act as the named accounts and no other, and has the bucket of code."""
    plan = planner.plan(**CLOUD_RUN, **JOBS, oidc_client_id="1-a.apps.googleusercontent.com")
    assert granted(plan) == {role.name: set(held_by(role)) for role in (READ_ROLE, LAUNCH_ROLE)}
    (act_as,) = made(plan, "google_service_account_iam_member")
    assert act_as["service_account_id"] == f"projects/ml-lab-prod/serviceAccounts/{JOBS['vm_accounts'][0]}"
    (bucket,) = made(plan, "google_storage_bucket_iam_member")
    assert bucket["bucket"] == "acme-code"
    settings = loaded(plan, tmp_path)
    assert settings.jobs.guard_url == "https://costguard-123456789012.us-central1.run.app"
    assert settings.jobs.code == "gs://acme-code/code"
    (service,) = made(plan, "google_cloud_run_v2_service")
    assert (service["iap_enabled"], service["invoker_iam_disabled"]) == (False, True)


def test_cloud_run_is_behind_the_proxy(planner: Planner, tmp_path: Path) -> None:
    """Identity-Aware Proxy decides, without a client id, who comes in, and Costguard checks its assertion."""
    plan = planner.plan(**CLOUD_RUN)
    (service,) = made(plan, "google_cloud_run_v2_service")
    assert (service["iap_enabled"], service["invoker_iam_disabled"]) == (True, False)
    sign_in = loaded(plan, tmp_path).sign_in
    assert sign_in.iap_audience == "/projects/123456789012/locations/us-central1/services/costguard"
    (people,) = made(plan, "google_iap_web_cloud_run_service_iam_member")
    assert people["member"] == "group:ml@example.com"


def test_no_secret_is_in_the_plan(planner: Planner) -> None:
    """The passwords that the stand-in makes are in no value and no change that Terraform keeps."""
    plan = planner.plan(**CLOUD_RUN)
    assert "not-random" not in json.dumps(plan)
    assert made(plan, "google_sql_user")


def test_sink_of_an_organisation(planner: Planner, tmp_path: Path) -> None:
    """The sink takes all that is below to a topic, whose subscription keeps what is unread for 7 days."""
    plan = planner.plan(**ELSEWHERE, organization="123456789", events=True)
    (sink,) = made(plan, "google_logging_organization_sink")
    assert (sink["org_id"], sink["include_children"], sink["filter"]) == ("123456789", True, FILTER)
    (subscription,) = made(plan, "google_pubsub_subscription")
    assert (subscription["name"], subscription["message_retention_duration"]) == (NAME, "604800s")
    assert len(made(plan, "google_pubsub_topic_iam_member")) == 2
    settings = loaded(plan, tmp_path)
    assert settings.feed.subscription == f"projects/acme-operations/subscriptions/{NAME}"
    assert settings.watch.scope.places == ("organizations/123456789",)


def test_an_organisation_alone_makes_no_sink(planner: Planner) -> None:
    """Projects are found; without `events` nothing of Logging or Pub/Sub is made."""
    kinds = {one["type"] for one in made(planner.plan(**ELSEWHERE, organization="123456789"))}
    assert "google_organization_iam_member" in kinds
    assert not any("_logging_" in kind or "_pubsub_" in kind for kind in kinds)


def test_folders_have_sinks_and_grants_of_their_own(planner: Planner) -> None:
    """Roles are made in the organisation and granted on the folders alone, each of which has a sink."""
    plan = planner.plan(**ELSEWHERE, organization="123456789", folders=["7", "8"], events=True)
    assert {sink["folder"] for sink in made(plan, "google_logging_folder_sink")} == {"7", "8"}
    assert {one["folder"] for one in made(plan, "google_folder_iam_member")} == {"folders/7", "folders/8"}
    assert made(plan, "google_logging_organization_sink") == made(plan, "google_organization_iam_member") == []
    assert len(made(plan, "google_pubsub_topic_iam_member")) == 3


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({**WATCHING, "where": "vm"}, "A VM needs package"),
        ({**WATCHING, "where": "vm", "package": "costguard"}, "A VM needs package"),
        ({**WATCHING, "where": "cloud-run", "image": "costguard.example/costguard:0.1.0"}, "Cloud Run needs image"),
        ({**VM, "launch": True}, "Jobs need guard_url"),
        ({**CLOUD_RUN, "launch": True}, "Jobs need guard_url"),
        ({**VM, "stop_through": ["group"]}, "stop_through needs stop"),
        ({**VM, "stop": True, "stop_through": ["gke"]}, "Expected group, vertex, workbench or workstation"),
        ({**VM, "projects": []}, "Name at least one project"),
        ({**VM, "organization": "acme.com"}, "Expected organization as a number"),
        ({**VM, "folders": ["7"]}, "folders need organization"),
        ({**VM, "events": True}, "events need organization"),
    ],
    ids=range(11),
)
def test_mistakes_are_refused_before_anything_is_made(variables: dict[str, Any], words: str, planner: Planner) -> None:
    """Each is named in words that say what to give."""
    with pytest.raises(AssertionError, match=words):
        planner.plan(**variables)


def test_stand_in_has_the_provider_s_own_schema(planner: Planner, tmp_path: Path) -> None:
    """An argument that the provider does not have is refused: the plans above mean something."""
    folder = planner.folder
    file = folder / "vm.tf"
    text = file.read_text()
    try:
        file.write_text(text.replace("  machine_type  ", "  machine_typo  "))
        with pytest.raises(AssertionError, match='argument "machine_type" is required'):
            planner.run("validate")
    finally:
        file.write_text(text)
