"""Every permission that Costguard uses at Google: by feature, with its role, its reason, and where to ask about it.

The one list. `PERMISSIONS` holds all; `needed(features, place)` those of the features that a set-up uses; `ROLES` the
roles that grant them, of which those with a `file` are custom roles whose files in `deploy/` a test compares with this
list; `held_by(role)` a role's permissions. A new call of an adapter adds its permission here, in the role's
file, and in service/docs/security.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Feature(StrEnum):
    """A part of the product that a set-up uses or leaves out."""

    WATCH = "watch"  # always
    IDLE = "idle"
    LOOSE = "loose"
    TPU_NODES = "tpu-nodes"  # of projects that have enabled the Cloud TPU API, and no others
    VERTEX = "vertex"  # of projects that have enabled the Vertex AI API, and no others
    STOP = "stop"
    STOP_GROUPS = "stop-groups"
    STOP_WORKBENCH = "stop-workbench"
    STOP_WORKSTATIONS = "stop-workstations"
    STOP_VERTEX = "stop-vertex"
    LAUNCH = "launch"
    LAUNCH_GROUPS = "launch-groups"  # jobs of several VMs by flex-start, which groups make
    CODE = "code"  # archives of code in a bucket
    OUTPUT = "output"  # whole output in a bucket
    STAGE = "stage"  # staged data in buckets
    BILL = "bill"
    DISCOVERY = "discovery"  # projects of an organisation or of folders are found
    EVENTS = "events"  # audit entries by a subscription


class GrantedOn(StrEnum):
    """The resource on which a permission is granted, and can be asked about with testIamPermissions."""

    PROJECT = "project"  # each watched project
    SERVICE_ACCOUNT = "service account"  # that VMs of jobs run as
    BUCKET = "bucket"
    TABLE = "table"  # of the billing export: datasets have no testIamPermissions in BigQuery v2
    SUBSCRIPTION = "subscription"  # of events
    TOPIC = "topic"  # that the subscription is of
    BILLED_PROJECT = "billed project"  # that queries of the bill are billed to
    SEARCHED_PLACE = "organisation or folder"  # whose projects are found


@dataclass(frozen=True, slots=True)
class GoogleRole:
    """A role that grants permissions: a custom one, with a `file` in `deploy/`, or one of Google's."""

    name: str
    file: str = ""
    title: str = ""
    description: str = ""

    def in_project(self, project: str) -> str:
        """The role as `gcloud` takes it."""
        return f"projects/{project}/roles/{self.name}" if self.file else self.name

    def in_organization(self, organization: str) -> str:
        """The role as `gcloud` takes it, made in `organizations/N`: folders have no roles of their own."""
        return f"{organization}/roles/{self.name}" if self.file else self.name


@dataclass(frozen=True, slots=True)
class GooglePermission:
    name: str
    feature: Feature
    place: GrantedOn
    role: GoogleRole
    reason: str

    @property
    def api(self) -> str:
        """The API that the calls go to, which must be enabled."""
        return api_of(self.name)


def api_of(permission: str) -> str:
    """Google names a permission after its service: `compute.disks.list` is of compute.googleapis.com."""
    return f"{permission.partition('.')[0]}.googleapis.com"


READ_ROLE = GoogleRole(
    "costguard",
    "iam-role.yaml",
    "Costguard",
    "Reads VMs, TPU nodes, Vertex AI, disks, operations, utilisation and what nothing uses, to account for their cost.",
)
STOP_ROLE = GoogleRole(
    "costguardStop",
    "iam-role-stop.yaml",
    "Costguard, stopping VMs",
    "Stops VMs when a person requests it, or by a rule that was turned on.",
)
STOP_KEPT_ROLE = GoogleRole(
    "costguardStopKept",
    "iam-role-stop-kept.yaml",
    "Costguard, stopping VMs by their keepers",
    "Stops VMs of managed groups, Workbench, Workstations and Vertex AI by their own APIs.",
)
LAUNCH_ROLE = GoogleRole(
    "costguardLaunch",
    "iam-role-launch.yaml",
    "Costguard, running jobs",
    "Creates, stops, starts and deletes the VMs of jobs.",
)
DISCOVERY_ROLE = GoogleRole(
    "costguardDiscovery",
    "iam-role-discovery.yaml",
    "Costguard, finding projects",
    "Finds the projects of an organisation or folder that have VMs, and what VMs were, by Cloud Asset Inventory.",
)
ACT_AS_ROLE = GoogleRole("roles/iam.serviceAccountUser")
CODE_ROLE = GoogleRole("roles/storage.objectUser")
OUTPUT_ROLE = GoogleRole("roles/storage.objectViewer")
BILL_ROLE = GoogleRole("roles/bigquery.dataViewer")
QUERY_ROLE = GoogleRole("roles/bigquery.jobUser")
PULL_ROLE = GoogleRole("roles/pubsub.subscriber")
PULL_VIEW_ROLE = GoogleRole("roles/pubsub.viewer")
BEAT_ROLE = GoogleRole("roles/pubsub.publisher")

_WHETHER_IT_FAILED = "whether a stop that was accepted failed after all"

ROLES = (
    *(READ_ROLE, STOP_ROLE, STOP_KEPT_ROLE, LAUNCH_ROLE, DISCOVERY_ROLE),
    *(ACT_AS_ROLE, CODE_ROLE, OUTPUT_ROLE, BILL_ROLE, QUERY_ROLE, PULL_ROLE, PULL_VIEW_ROLE, BEAT_ROLE),
)

_REASONS: Mapping[tuple[Feature, GrantedOn, GoogleRole], Mapping[str, str]] = {
    (Feature.WATCH, GrantedOn.PROJECT, READ_ROLE): {
        "compute.instances.list": "the VMs in each zone",
        "compute.instances.get": "one VM right before a stop, and whether one is gone",
        "compute.disks.list": "disks bill too, also of stopped VMs",
        "compute.machineTypes.get": "what a machine type is made of, for its price",
        "compute.zoneOperations.list": "when VMs started and ended, by whom, preemptions",
        "compute.regionOperations.list": "the same for VMs created in bulk",
        "compute.globalOperations.list": "the same for operations of the whole project",
        "serviceusage.services.get": "whether the APIs are enabled, asked when a set-up is checked",
    },
    (Feature.IDLE, GrantedOn.PROJECT, READ_ROLE): {"monitoring.timeSeries.list": "whether VMs are idle"},
    (Feature.LOOSE, GrantedOn.PROJECT, READ_ROLE): {
        "compute.addresses.list": "reserved addresses that nothing uses",
        "compute.snapshots.list": "snapshots",
        "compute.images.list": "images of your own",
        "compute.reservations.list": "what is reserved and not used",
        "compute.futureReservations.list": "what is reserved from when to when",
    },
    # Queued resources have no permissions of their own in Google's index (docs.cloud.google.com/iam/docs/
    # roles-permissions/tpu): their list takes that of nodes.
    (Feature.TPU_NODES, GrantedOn.PROJECT, READ_ROLE): {
        "tpu.nodes.list": "nodes and queued resources of the Cloud TPU API",
        "tpu.nodes.get": "whether a TPU node is gone",
        "tpu.operations.list": "when TPU nodes were ready and when they ended",
    },
    (Feature.VERTEX, GrantedOn.PROJECT, READ_ROLE): {
        "aiplatform.customJobs.list": "custom jobs of Vertex AI",
        "aiplatform.customJobs.get": "when a custom job ended, and whether one is over",
        "aiplatform.hyperparameterTuningJobs.list": "the trials of tuning jobs",
        "aiplatform.persistentResources.list": "persistent resources, which bill while they wait",
        "aiplatform.persistentResources.get": "whether one is gone",
        "aiplatform.notebookRuntimes.list": "runtimes of Colab Enterprise",
        "aiplatform.notebookRuntimes.get": "whether one is gone",
        "aiplatform.endpoints.list": "models that are deployed on endpoints",
        "aiplatform.endpoints.get": "whether one is undeployed",
        "aiplatform.deploymentResourcePools.list": "machines that deployed models share",
        "aiplatform.deploymentResourcePools.get": "whether they are gone",
    },
    (Feature.STOP, GrantedOn.PROJECT, STOP_ROLE): {"compute.instances.stop": "to stop"},
    (Feature.STOP_GROUPS, GrantedOn.PROJECT, STOP_KEPT_ROLE): {
        "compute.instanceGroupManagers.get": "whether the group has this very VM, and no autoscaler",
        "compute.instanceGroupManagers.update": "`stopInstances`: the VM stays in its group, on its disk",
        "compute.zoneOperations.get": _WHETHER_IT_FAILED,
        "compute.regionOperations.get": _WHETHER_IT_FAILED,
    },
    (Feature.STOP_WORKBENCH, GrantedOn.PROJECT, STOP_KEPT_ROLE): {
        "notebooks.instances.get": "whether the Workbench instance has this very VM",
        "notebooks.instances.stop": "to stop it",
        "notebooks.operations.get": _WHETHER_IT_FAILED,
    },
    (Feature.STOP_WORKSTATIONS, GrantedOn.PROJECT, STOP_KEPT_ROLE): {
        "workstations.workstations.get": "whether the workstation has this very VM",
        "workstations.workstations.stop": "to stop it",
        "workstations.operations.get": _WHETHER_IT_FAILED,
    },
    # Of runtimes Google's reference of permissions has assign, delete, get, list, start, update and upgrade, and none
    # to stop one; so has roles/aiplatform.notebookRuntimeAdmin, of "full access to all runtimes". The pages of the
    # methods start and stop name no permission, that of upgrade its own (docs.cloud.google.com, read in November 2026).
    # A stop changes a runtime, so `update` is taken for its permission; a refusal of Google's names the one it misses.
    (Feature.STOP_VERTEX, GrantedOn.PROJECT, STOP_KEPT_ROLE): {
        "aiplatform.customJobs.cancel": "to cancel a custom job",
        "aiplatform.notebookRuntimes.update": "to stop a runtime of Colab Enterprise",
        "aiplatform.endpoints.undeploy": "to undeploy a model",
    },
    (Feature.LAUNCH, GrantedOn.PROJECT, LAUNCH_ROLE): {
        "compute.instances.create": "a VM for each attempt",
        "compute.instances.setLabels": "its labels: owner and job",
        "compute.instances.setMetadata": "the agent, its instructions and its token",
        "compute.instances.setServiceAccount": "the account it runs as",
        "compute.instances.get": "what became of a request whose answer was lost",
        "compute.instances.start": "to start a kept VM whose disk holds the checkpoints",
        "compute.instances.stop": "to keep the disk of a job that ended",
        "compute.instances.delete": "the VM of an attempt that is over",
        "compute.disks.create": "its boot disk",
        "compute.images.useReadOnly": "from an image",
        "compute.subnetworks.use": "its network",
        "compute.subnetworks.useExternalIp": "its external address, where the preset gives one",
        "compute.subnetworks.get": "whether VMs of the subnetwork reach Google without an external address",
        "compute.routers.list": "whether it has Cloud NAT, so that they need none",
        "compute.regions.get": "quotas, so that zones without quota are skipped",
        "compute.reservations.get": "whether a reservation that a job runs on ends its VMs",
        "compute.futureReservations.list": "the same of one that Google made for a time in the calendar",
        "compute.resourcePolicies.create": "the placement policy of a job whose VMs stand close together",
        "compute.resourcePolicies.get": "whether Google has made it",
        "compute.resourcePolicies.use": "to place its VMs by it",
        "compute.resourcePolicies.delete": "to delete it once the job is over",
        "compute.zoneOperations.get": "the result of an insert, a start, a stop, a delete",
        "compute.acceleratorTypes.get": "whether a zone has the GPU of a preset, asked when a set-up is checked",
        "compute.images.get": "whether the image of a preset is there, in the same way",
        "compute.images.getFromFamily": "the same for a family of images",
    },
    # A resize request, its cancel and the deletion of VMs by their group are updates of the group.
    (Feature.LAUNCH_GROUPS, GrantedOn.PROJECT, LAUNCH_ROLE): {
        "compute.instanceTemplates.create": "what the VMs of a gang on flex-start have in common",
        "compute.instanceTemplates.get": "whether it is there",
        "compute.instanceTemplates.useReadOnly": "to make the gang's group from it",
        "compute.instanceTemplates.delete": "once the gang is over",
        "compute.instanceGroupManagers.create": "a group for each gang on flex-start",
        "compute.instanceGroupManagers.get": "how its request for VMs stands",
        "compute.instanceGroupManagers.update": "to request VMs all at once, to cancel that, to give one VM back",
        "compute.instanceGroupManagers.delete": "once the gang is over, or moves",
    },
    (Feature.LAUNCH, GrantedOn.PROJECT, READ_ROLE): {
        "compute.advice.capacity": "how likely Spot and flex-start VMs are to be had in a region",
        "compute.advice.capacityHistory": "how often Spot VMs were preempted in zones without history of your own",
        "compute.projects.get": "quotas across regions and VMs' default account, asked when a set-up is checked",
    },
    (Feature.LAUNCH, GrantedOn.SERVICE_ACCOUNT, ACT_AS_ROLE): {
        "iam.serviceAccounts.actAs": "to make VMs that run as this account"
    },
    (Feature.CODE, GrantedOn.BUCKET, CODE_ROLE): {
        "storage.objects.create": "to store archives of code",
        "storage.objects.get": "to hand them to VMs",
        "storage.objects.list": "to find those that no open job needs",
        "storage.objects.delete": "to delete those after 30 days",
    },
    (Feature.OUTPUT, GrantedOn.BUCKET, OUTPUT_ROLE): {
        "storage.objects.get": "to show the output that VMs store",
        "storage.objects.list": "to find it",
    },
    (Feature.STAGE, GrantedOn.BUCKET, CODE_ROLE): {
        "storage.objects.list": "to find the objects of staged data that no job uses",
        "storage.objects.delete": "to delete them",
    },
    (Feature.BILL, GrantedOn.TABLE, BILL_ROLE): {
        "bigquery.tables.get": "the table's columns",
        "bigquery.tables.getData": "its rows",
    },
    (Feature.DISCOVERY, GrantedOn.SEARCHED_PLACE, DISCOVERY_ROLE): {
        "cloudasset.assets.searchAllResources": "which projects have VMs, TPU nodes or reservations",
        "cloudasset.assets.exportResource": "what VMs were that no listing saw and whose entry was lost",
    },
    (Feature.BILL, GrantedOn.BILLED_PROJECT, QUERY_ROLE): {"bigquery.jobs.create": "to run the query"},
    (Feature.EVENTS, GrantedOn.SUBSCRIPTION, PULL_ROLE): {
        "pubsub.subscriptions.consume": "to pull events and to acknowledge them"
    },
    (Feature.EVENTS, GrantedOn.SUBSCRIPTION, PULL_VIEW_ROLE): {
        "pubsub.subscriptions.get": "which topic heartbeats go to"
    },
    (Feature.EVENTS, GrantedOn.TOPIC, BEAT_ROLE): {
        "pubsub.topics.publish": "to send heartbeats, which show that events come where nothing happens"
    },
}
PERMISSIONS = tuple(
    GooglePermission(name, feature, place, role, reason)
    for (feature, place, role), reasons in _REASONS.items()
    for name, reason in reasons.items()
)


def needed(features: Collection[Feature], place: GrantedOn) -> list[GooglePermission]:
    """The permissions of these features at such a place, each once, with the first feature that needs it."""
    once: dict[str, GooglePermission] = {}
    for permission in PERMISSIONS:
        if permission.place is place and permission.feature in features:
            once.setdefault(permission.name, permission)
    return list(once.values())


def held_by(role: GoogleRole) -> list[str]:
    """The names of the permissions in a role, sorted, as its file lists them."""
    return sorted({permission.name for permission in PERMISSIONS if permission.role is role})
