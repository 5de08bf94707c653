"""Each permission, API, quota, bucket right and Slack scope taken away in turn: the doctor names exactly that one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.doctor.setup import ACCOUNT, GOOGLE, PROJECTS, SLACK, SUBSCRIPTION, TABLE, TRAINER, DoctorSetup, set_up

from costguard.doctor.finding import CheckState, Topic
from costguard.doctor.permissions import (
    LAUNCH_ROLE,
    READ_ROLE,
    STOP_KEPT_ROLE,
    STOP_ROLE,
    Feature,
    GooglePermission,
    GrantedOn,
    held_by,
    needed,
)
from costguard.slack.client import SCOPES
from costguard_sandbox.server import running

PROJECT = PROJECTS[1]
IN_PROJECT = needed(set(Feature), GrantedOn.PROJECT)
ON_BUCKETS = [(bucket, one) for bucket, feature in (("acme-code", Feature.CODE), ("acme-logs", Feature.OUTPUT),
                                                     ("acme-stage", Feature.STAGE))
              for one in needed({feature}, GrantedOn.BUCKET)]  # fmt: skip
ON_TABLE = needed({Feature.BILL}, GrantedOn.TABLE)
APIS = ("compute", "monitoring", "notebooks", "workstations")
MEMBER = f"--member=serviceAccount:{ACCOUNT}"
QUOTAS = [
    ("PREEMPTIBLE_NVIDIA_T4_GPUS", "t4", 1),
    ("PREEMPTIBLE_NVIDIA_A100_GPUS", "a100", 1),
    ("NVIDIA_A100_GPUS", "a100", 1),
    ("PREEMPTIBLE_CPUS", "t4", 8),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoctorSetup]:
    with set_up(tmp_path_factory.mktemp("doctor")) as made:
        yield made


@pytest.fixture
def setup(whole: DoctorSetup) -> Iterator[DoctorSetup]:
    yield whole
    whole.world.rights.restore()
    whole.world.faults.clear()


def test_nothing_is_needed_where_nothing_is_taken_away(setup: DoctorSetup) -> None:
    """Every line is `ok`, and each project, bucket, account and table has its lines."""
    assert setup.troubles() == []
    named = " ".join(one.sentence for one in setup.findings())
    buckets = "gs://acme-code", "gs://acme-logs", "gs://acme-stage"
    assert all(word in named for word in (*PROJECTS, ACCOUNT, TRAINER, *buckets, TABLE))


def mends(one: GooglePermission) -> str:
    """The command, as the roles' own pages write it; a role whose only permission lacks is not bound at all."""
    if held_by(one.role) == [one.name]:
        printed = f"costguard google-role {one.role.name}"
        made = f"{printed} | gcloud iam roles create {one.role.name} --project={PROJECT} --file=/dev/stdin"
        role = f"--role=projects/{PROJECT}/roles/{one.role.name}"
        return f"{made}; gcloud projects add-iam-policy-binding {PROJECT} {MEMBER} {role}"
    return f"gcloud iam roles update {one.role.name} --project={PROJECT} --add-permissions={one.name}"


@pytest.mark.parametrize("one", needed({Feature.EVENTS}, GrantedOn.SUBSCRIPTION), ids=lambda one: one.name)
def test_each_permission_of_the_events_subscription(one: GooglePermission, setup: DoctorSetup) -> None:
    """The line says which right lacks, why it is needed, and the one command that grants it."""
    setup.world.rights.withhold(SUBSCRIPTION, one.name)
    finding = setup.needs()
    assert (finding.name, finding.where) == (one.name, SUBSCRIPTION)
    assert one.reason in finding.sentence
    place = "gcloud pubsub subscriptions add-iam-policy-binding costguard-events --project=acme-vision"
    assert finding.command == f"{place} {MEMBER} --role={one.role.name}"


TOPIC = SUBSCRIPTION.replace("/subscriptions/", "/topics/")


def test_the_right_to_send_heartbeats(setup: DoctorSetup) -> None:
    """It is on the topic, which may be another project's; the line says what lacks without it."""
    setup.world.rights.withhold(TOPIC, "pubsub.topics.publish")
    finding = setup.needs()
    assert (finding.topic, finding.name, finding.where) == (Topic.EVENTS, "pubsub.topics.publish", TOPIC)
    assert "to send heartbeats" in finding.sentence
    assert "in every pass" in finding.sentence
    place = "gcloud pubsub topics add-iam-policy-binding costguard-events --project=acme-vision"
    assert finding.command == f"{place} {MEMBER} --role=roles/pubsub.publisher"


def test_a_topic_that_was_deleted(setup: DoctorSetup) -> None:
    """The subscription stays, and nothing comes by it any more."""
    gone = setup.world.pubsub.subscription(SUBSCRIPTION)
    setup.world.pubsub.remove_topic(TOPIC)
    finding = setup.needs()
    setup.world.pubsub.remove_subscription(SUBSCRIPTION)
    setup.world.pubsub.add_topic(TOPIC)
    setup.world.pubsub.add_subscription(SUBSCRIPTION, TOPIC, gone.ack_deadline_s)
    assert "was deleted, so no events come" in finding.sentence
    assert finding.command == "gcloud pubsub topics list --project=acme-vision"


def test_the_feed_is_checked_at_its_own_endpoint(tmp_path: Path, setup: DoctorSetup) -> None:
    """`[feed] endpoint` is another server than Compute Engine's: the subscription is only there."""
    with set_up(tmp_path) as other:
        other.world.pubsub.remove_subscription(SUBSCRIPTION)
        with running(setup.world) as url:
            text = other.settings_text
            place = text.index("[feed]")
            own = text[place:].split('endpoint = "', 1)[1].split('"', 1)[0]
            other.settings_text = text[:place] + text[place:].replace(f'endpoint = "{own}"', f'endpoint = "{url}"', 1)
            assert other.troubles() == []


def test_a_subscription_that_is_not_there(setup: DoctorSetup) -> None:
    """It is not there rather than forbidden: what makes it is named, and the command lists those that are."""
    for one in needed({Feature.EVENTS}, GrantedOn.SUBSCRIPTION):
        setup.world.rights.withhold(SUBSCRIPTION, one.name)
    gone = setup.world.pubsub.subscription(SUBSCRIPTION)
    setup.world.pubsub.remove_subscription(SUBSCRIPTION)
    finding = setup.needs()
    setup.world.pubsub.add_subscription(SUBSCRIPTION, gone.topic)
    assert "There is no subscription projects/acme-vision/subscriptions/costguard-events" in finding.sentence
    assert "costguard google-feed" in finding.sentence
    assert finding.command == "gcloud pubsub subscriptions list --project=acme-vision"


@pytest.mark.parametrize("one", IN_PROJECT, ids=lambda one: one.name)
def test_each_permission_of_a_project(one: GooglePermission, setup: DoctorSetup) -> None:
    """The line has its name, its project, its reason, the command; nothing of what could not be asked without it."""
    setup.world.rights.withhold(PROJECT, one.name)
    finding = setup.needs()
    assert (finding.name, finding.where) == (one.name, PROJECT)
    assert one.reason in finding.sentence
    assert finding.command == mends(one)


@pytest.mark.parametrize("role", [READ_ROLE, STOP_KEPT_ROLE], ids=lambda role: role.name)
def test_a_whole_role_is_one_line(role, setup: DoctorSetup) -> None:  # type: ignore[no-untyped-def]
    """Where nothing of a role is granted, the role is not bound: one command makes and binds it."""
    for name in held_by(role):
        setup.world.rights.withhold(PROJECT, name)
    finding = setup.needs()
    assert finding.name == f"role {role.name}"
    assert finding.command.startswith(f"costguard google-role {role.name} | gcloud iam roles create {role.name} ")
    assert finding.command.endswith(f"{MEMBER} --role=projects/{PROJECT}/roles/{role.name}")


def test_a_project_that_is_not_for_jobs_needs_no_role_for_them(setup: DoctorSetup) -> None:
    """Jobs run where their role is granted: a project without any of it is only watched."""
    of_jobs = set(held_by(LAUNCH_ROLE)).difference(*map(held_by, (READ_ROLE, STOP_ROLE, STOP_KEPT_ROLE)))
    for name in of_jobs:
        setup.world.rights.withhold(PROJECT, name)
    assert setup.troubles() == []
    for name in of_jobs:
        setup.world.rights.withhold(PROJECTS[0], name)
    assert {one.where for one in setup.troubles()} == set(PROJECTS)  # where it is granted nowhere, it is missing


def test_tpus_need_their_permissions_where_their_api_is_on(setup: DoctorSetup) -> None:
    """A project without the Cloud TPU API has no TPU nodes: it needs neither the API nor the right to read them."""
    setup.world.rights.disable(PROJECT, "tpu.googleapis.com")
    setup.world.rights.withhold(PROJECT, "tpu.nodes.list")
    assert setup.troubles() == []


@pytest.mark.parametrize("api", APIS)
def test_each_api_of_a_project(api: str, setup: DoctorSetup) -> None:
    """An API that is off is named with the command that turns it on."""
    setup.world.rights.disable(PROJECT, f"{api}.googleapis.com")
    finding = setup.needs()
    assert finding.command == f"gcloud services enable {api}.googleapis.com --project={PROJECT}"


def test_the_api_of_the_price_catalogue_is_needed_in_the_accounts_project(setup: DoctorSetup) -> None:
    """Cloud Billing is asked on behalf of the account's own project."""
    setup.world.rights.disable("acme-operations", "cloudbilling.googleapis.com")
    command = "gcloud services enable cloudbilling.googleapis.com --project=acme-operations"
    assert setup.needs().command == command


@pytest.mark.parametrize(("metric", "preset", "wanted"), QUOTAS)
def test_each_quota(metric: str, preset: str, wanted: int, setup: DoctorSetup) -> None:
    """A quota in which one VM of a preset does not fit; GPUs and the vCPUs that often limit first.

    A preemptible quota of 0 was never granted, and the common one counts: both are taken away.
    """
    region = "us-central1"
    common = {"PREEMPTIBLE_CPUS": "CPUS"}.get(metric, metric.removeprefix("PREEMPTIBLE_"))
    limit = wanted - 1
    for name in {metric, common} if metric.startswith("PREEMPTIBLE_") and not limit else {metric}:
        setup.world.faults.add("quota", metric=name, limit=limit, region=region, project=PROJECT)
    needed_ones = [one for one in setup.troubles() if one.name == f"{region}/{common if not limit else metric}"]
    assert len(needed_ones) == 1
    assert {one.topic for one in setup.troubles()} == {Topic.QUOTAS}
    assert preset in needed_ones[0].sentence
    quota_id = f"{(common if not limit else metric).replace('_', '-')}-per-project-region"
    assert f"--quota-id={quota_id} --preferred-value={wanted} --dimensions=region={region}" in needed_ones[0].command


def test_the_quota_of_gpus_over_all_regions(setup: DoctorSetup) -> None:
    """GPUS_ALL_REGIONS is the project's, and has no region."""
    setup.world.faults.add("quota", metric="GPUS_ALL_REGIONS", limit=7, project=PROJECT)
    finding = setup.needs()
    assert finding.name == "GPUS_ALL_REGIONS"
    assert "--quota-id=GPUS-ALL-REGIONS-per-project --preferred-value=8" in finding.command


def test_a_gpu_without_a_figure_is_unknown_and_never_zero(tmp_path: Path) -> None:
    """H100 on demand is in the Cloud Quotas API alone."""
    text = GOOGLE + (
        '[presets.h100]\nlimit = "8h"\nlaunch.machine_type = "a3-highgpu-8g"\nlaunch.gpu_type = "nvidia-h100-80gb"\n'
        'launch.gpu_count = 8\nlaunch.zones = ["us-central1-a"]\nlaunch.spot = false\n'
    )
    with set_up(tmp_path, text) as made:
        troubles = [one for one in made.troubles() if one.topic is Topic.QUOTAS]
    assert {one.name for one in troubles} == {"us-central1/NVIDIA_H100_GPUS"}
    assert {one.state for one in troubles} == {CheckState.UNKNOWN}


@pytest.mark.parametrize(("bucket", "one"), ON_BUCKETS, ids=lambda value: getattr(value, "name", value))
def test_each_right_on_a_bucket(bucket: str, one: GooglePermission, setup: DoctorSetup) -> None:
    """The bucket, the right, and the role on that bucket alone."""
    setup.world.rights.withhold(bucket, one.name)
    finding = setup.needs()
    assert (finding.name, finding.where) == (one.name, f"gs://{bucket}")
    given = f"{MEMBER} --role={one.role.name}"
    assert finding.command == f"gcloud storage buckets add-iam-policy-binding gs://{bucket} {given}"


@pytest.mark.parametrize("one", ON_TABLE, ids=lambda one: one.name)
def test_each_right_on_the_bills_table(one: GooglePermission, setup: DoctorSetup) -> None:
    """The table, and the role on it."""
    setup.world.rights.withhold(TABLE, one.name)
    finding = setup.needs()
    assert finding.name == one.name
    assert finding.command == f"bq add-iam-policy-binding {MEMBER} --role={one.role.name} acme-vision:billing.export"


def test_the_right_to_query(setup: DoctorSetup) -> None:
    """The right is one on the project that queries are billed to."""
    setup.world.rights.withhold("acme-vision", "bigquery.jobs.create")
    finding = setup.needs()
    assert finding.name == "bigquery.jobs.create"
    role = "--role=roles/bigquery.jobUser"
    assert finding.command == f"gcloud projects add-iam-policy-binding acme-vision {MEMBER} {role}"


def test_the_right_to_act_as_an_account(setup: DoctorSetup) -> None:
    """It is asked on the account that VMs run as, which the project cannot say."""
    setup.world.rights.withhold(TRAINER, "iam.serviceAccounts.actAs")
    finding = setup.needs()
    assert (finding.name, finding.where) == ("iam.serviceAccounts.actAs", TRAINER)
    given = f"--project=acme-research {MEMBER} --role=roles/iam.serviceAccountUser"
    assert finding.command == f"gcloud iam service-accounts add-iam-policy-binding {TRAINER} {given}"


def test_what_a_preset_names_and_google_lacks(tmp_path: Path) -> None:
    """An image, a machine type and a GPU that are not there, each with the list of those that are."""
    text = GOOGLE.replace(
        '[presets.t4]\nlaunch.zones = ["us-central1-a"]',
        '[presets.t4]\nlaunch.zones = ["us-central1-a", "us-south1-a"]\n'
        'launch.image = "projects/deeplearning-platform-release/global/images/family/never-made"',
    )
    with set_up(tmp_path, text) as made:
        troubles = [one for one in made.troubles() if one.topic is Topic.PRESETS]
    assert all(one.state is CheckState.NEEDS and one.command.startswith("gcloud compute ") for one in troubles)
    assert {one.name for one in troubles} == {
        "projects/deeplearning-platform-release/global/images/family/never-made",
        "us-south1-a/nvidia-tesla-t4",
    }


@pytest.fixture(scope="module")
def with_slack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoctorSetup]:
    with set_up(tmp_path_factory.mktemp("doctor"), GOOGLE + SLACK) as made:
        made.world.slack.limits.enforced = False
        yield made


@pytest.mark.parametrize("scope", SCOPES)
def test_each_scope_in_slack(scope: str, with_slack: DoctorSetup) -> None:
    """The scope, what it is for, and where it is added; nothing of what could not be looked up for lack of it."""
    with_slack.world.slack.tokens.remove_scopes(scope)
    try:
        finding = with_slack.needs(post=True)
    finally:
        with_slack.world.slack.tokens.reset()
    assert finding.name == f"scope {scope}"
    assert SCOPES[scope] in finding.sentence
    assert f"Add {scope} under OAuth & Permissions" in finding.command


def test_slack_without_a_message_is_not_known(with_slack: DoctorSetup) -> None:
    """Nothing is posted unless it is asked for, and that it can be is not claimed."""
    before = len(with_slack.world.slack.record)
    (finding,) = with_slack.troubles()
    assert (finding.name, finding.state) == ("message", CheckState.UNKNOWN)
    assert finding.command == "costguard doctor --post"
    assert len(with_slack.world.slack.record) == before
    assert with_slack.troubles(post=True) == []
