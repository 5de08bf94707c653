"""Judges what Google answered: account, permissions, APIs, quotas, and what presets name. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from costguard.doctor.finding import Finding, NotAnswered, Topic, needs, ok, unknown
from costguard.doctor.permissions import LAUNCH_ROLE, ROLES, GooglePermission, GoogleRole, held_by
from costguard.model.buying import models_of
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import PREEMPTIBLE_QUOTA, Quota, Recipe, gpu_metrics
from costguard.model.mending import enabling
from costguard.model.words import count_text, list_text

_PLACEHOLDER = "ACCOUNT"
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"


@dataclass(frozen=True, slots=True)
class Caller:
    """The owner of the credentials: an account's address, or "" where they do not say. `scopes` bound a token."""

    account: str = ""
    scopes: frozenset[str] = frozenset()

    @property
    def member(self) -> str:
        """The account as a member of a policy."""
        account = self.account or _PLACEHOLDER
        is_service = account == _PLACEHOLDER or account.endswith(".gserviceaccount.com")
        return f"{'serviceAccount' if is_service else 'user'}:{account}"

    @property
    def project(self) -> str:
        """The project of a service account; "" of a person's."""
        name, _, host = self.account.partition("@")
        return (
            host.removesuffix(".iam.gserviceaccount.com") if host.endswith(".iam.gserviceaccount.com") and name else ""
        )


def caller(answer: Caller | NotAnswered) -> Iterator[Finding]:
    """Judges whose the credentials are, and whether their scope lets the roles take effect."""
    if isinstance(answer, NotAnswered):
        yield unknown(Topic.CREDENTIALS, "account", answer.why)
        return
    if not answer.account:
        yield unknown(Topic.CREDENTIALS, "account", "Google accepts the credentials and does not say whose they are.")
        return
    yield ok(Topic.CREDENTIALS, "account", f"Costguard is {answer.account} at Google.")
    if answer.scopes and CLOUD_PLATFORM not in answer.scopes:
        yield needs(
            Topic.CREDENTIALS,
            "scope",
            f"The token's scopes leave out {CLOUD_PLATFORM}, so no role can give all that is needed: stop this VM, and "
            "give it that scope.",
            f"gcloud compute instances set-service-account VM --scopes={CLOUD_PLATFORM}",
        )


def in_project(
    project: str, wanted: Sequence[GooglePermission], granted: frozenset[str] | NotAnswered, who: Caller
) -> Iterator[Finding]:
    """Yields one line where all is there, or one for each permission that lacks."""
    if isinstance(granted, NotAnswered):
        yield unknown(Topic.PERMISSIONS, "permissions", f"Permissions in {project}: {granted.why}", project)
        return
    missing = [one for one in wanted if one.name not in granted]
    if not missing:
        yield ok(Topic.PERMISSIONS, "permissions", f"{project} grants {_all(wanted)}.", project)
        return
    for role in dict.fromkeys(one.role for one in missing):
        of_role = [one for one in missing if one.role is role]
        own = {one.name for one in wanted if one.role is role}
        if role.file and own == {one.name for one in of_role}:
            yield _without_role(project, role, of_role, who)
        else:
            yield from (_without_one(project, one, who) for one in of_role)


def _all(wanted: Sequence[GooglePermission]) -> str:
    return f"all {count_text(len(wanted), 'permission')} that are used there" if len(wanted) > 1 else wanted[0].name


def _without_role(project: str, role: GoogleRole, missing: Sequence[GooglePermission], who: Caller) -> Finding:
    """Nothing of the role is granted: it is not bound. A role that is there already makes the first part fail alone."""
    name = missing[0].name if len(missing) == 1 else f"role {role.name}"
    reasons = missing[0].reason if len(missing) == 1 else f"{count_text(len(missing), 'permission')} of {role.file}"
    made = _joined("gcloud", "iam", "roles", "create", role.name, f"--project={project}", "--file=/dev/stdin")
    return needs(
        Topic.PERMISSIONS,
        name,
        f"{project} does not grant {name} ({reasons}) to {who.account or 'the account that Costguard runs as'}.",
        f"costguard google-role {role.name} | {made}; {_bound(project, role, who)}",
        project,
    )


def _without_one(project: str, one: GooglePermission, who: Caller) -> Finding:
    """The rest of the role is there, so the role is bound and lacks it."""
    command = (
        _joined(
            "gcloud", "iam", "roles", "update", one.role.name, f"--project={project}", f"--add-permissions={one.name}"
        )
        if one.role.file
        else _bound(project, one.role, who)
    )
    whom = who.account or "the account that Costguard runs as"
    return needs(
        Topic.PERMISSIONS, one.name, f"{project} does not grant {one.name} ({one.reason}) to {whom}.", command, project
    )


def _bound(project: str, role: GoogleRole, who: Caller) -> str:
    given = (f"--member={who.member}", f"--role={role.in_project(project)}")
    return _joined("gcloud", "projects", "add-iam-policy-binding", project, *given)


def at_place(
    topic: Topic, where: str, wanted: Sequence[GooglePermission], granted: frozenset[str] | NotAnswered, command: str
) -> Iterator[Finding]:
    """The same for a bucket, a table or an account, whose one role `command` grants: one line for each that lacks."""
    if isinstance(granted, NotAnswered):
        yield unknown(topic, "permissions", f"Permissions on {where}: {granted.why}", where)
        return
    missing = [one for one in wanted if one.name not in granted]
    if not missing:
        yield ok(topic, "permissions", f"{where} grants {_all(wanted)}.", where)
    for one in missing:
        yield needs(topic, one.name, f"{where} does not grant {one.name} ({one.reason}).", command, where)


def grant_on_bucket(bucket: str, role: GoogleRole, who: Caller) -> str:
    given = (f"--member={who.member}", f"--role={role.name}")
    return _joined("gcloud", "storage", "buckets", "add-iam-policy-binding", f"gs://{bucket}", *given)


def grant_on_account(account: str, project: str, role: GoogleRole, who: Caller) -> str:
    given = (f"--project={project}", f"--member={who.member}", f"--role={role.name}")
    return _joined("gcloud", "iam", "service-accounts", "add-iam-policy-binding", account, *given)


def grant_on_place(place: str, role: GoogleRole, places: Sequence[str], who: Caller) -> str:
    """Makes the role in the organisation and binds it at the place.

    ORGANIZATION stands for the number of a folder's organisation where no place names it.
    """
    kind, _, number = place.partition("/")
    organization = next((one for one in places if one.startswith("organizations/")), "organizations/ORGANIZATION")
    made = _joined(
        *("gcloud", "iam", "roles", "create", role.name, f"--organization={organization.partition('/')[2]}"),
        "--file=/dev/stdin",
    )
    command = ("organizations",) if kind == "organizations" else ("resource-manager", "folders")
    given = (f"--member={who.member}", f"--role={role.in_organization(organization)}")
    bound = _joined("gcloud", *command, "add-iam-policy-binding", number, *given)
    return f"costguard google-role {role.name} | {made}; {bound}"


def grant_on_table(table: str, role: GoogleRole, who: Caller) -> str:
    """The role is granted on the table, which needs the fewest words; on its dataset it serves as well."""
    project, dataset, name = table.rsplit(".", 2)
    given = (f"--member={who.member}", f"--role={role.name}")
    return _joined("bq", "add-iam-policy-binding", *given, f"{project}:{dataset}.{name}")


def grant_in_project(project: str, role: GoogleRole, who: Caller) -> str:
    return _bound(project, role, who)


def enabled(
    project: str, wanted: Collection[str], states: Mapping[str, bool] | NotAnswered, reason: str = ""
) -> Iterator[Finding]:
    """Yields one line where all are on, or one for each that is off. An API that the answer leaves out is unknown."""
    names = sorted(wanted)
    if not names:
        return
    if isinstance(states, NotAnswered):
        yield unknown(Topic.APIS, "apis", f"APIs of {project}: {states.why}", project)
        return
    silent = [name for name in names if name not in states]
    off = [name for name in names if states.get(name) is False]
    for name in off:
        yield needs(Topic.APIS, name, f"{name} is not enabled in {project}{reason}.", enabling(name, project), project)
    for name in silent:
        yield unknown(Topic.APIS, name, f"Google does not say whether {name} is enabled in {project}.", project)
    if not off and not silent:
        yield ok(Topic.APIS, "apis", f"{project} has enabled {list_text(names)}{reason}.", project)


@dataclass(frozen=True, slots=True)
class QuotaAnswers:
    """Quotas by region, and those that span regions, each by metric."""

    regions: Mapping[str, Mapping[str, Quota] | NotAnswered]
    everywhere: Mapping[str, Quota] | NotAnswered = field(default_factory=dict)


def quotas(
    project: str, presets: Mapping[str, Recipe], vcpus: Mapping[str, int | None], answers: QuotaAnswers
) -> Iterator[Finding]:
    """Yields one line where a VM of each preset fits into each quota; else one for each that is too small or unknown.

    `vcpus` by preset; None where the machine type could not be read.
    """
    findings: dict[str, Finding] = {}
    for name, recipe in presets.items():
        for region in dict.fromkeys(zone.rpartition("-")[0] for zone in recipe.zones):
            answer = answers.regions.get(region, NotAnswered("it was not asked."))
            if isinstance(answer, NotAnswered):
                finding = unknown(Topic.QUOTAS, region, f"Quotas of {region} in {project}: {answer.why}", project)
                findings.setdefault(region, finding)
                continue
            for model in models_of(recipe):
                bad = list(_of_region(project, name, recipe, model, region, vcpus.get(name), answer))
                findings.update({one.name: one for one in bad if one.name not in findings})
    for one in _everywhere(project, presets, vcpus, answers.everywhere):
        findings.setdefault(one.name, one)
    yield from findings.values()
    if not findings and presets:
        words = f"{project} has room in its quotas for a VM of {list_text(sorted(presets))} in each of their regions."
        yield ok(Topic.QUOTAS, "quotas", words, project)


def _of_region(
    project: str,
    preset: str,
    recipe: Recipe,
    model: ProvisioningModel,
    region: str,
    vcpus: int | None,
    limits: Mapping[str, Quota],
) -> Iterator[Finding]:
    """GPUs, then CPUs, which often limit first."""
    for metrics, wanted, what in (
        (gpu_metrics(recipe.gpu_type, model), recipe.gpu_count, recipe.gpu_type),
        (cpu_metrics(recipe.machine_type, model), vcpus, "vCPUs"),
    ):
        if wanted == 0:
            continue
        held = [limits[metric] for metric in metrics if metric in limits]
        # A quota for preemptible VMs counts once one was granted, and the common one before.
        quota = next((one for one in held if one.limit > 0), held[-1] if held else None)
        if quota is None:
            why = (
                f"Compute Engine has no figure of the quota for {what} of {preset} ({model.value}) in {region} of "
                f"{project}: Cloud Quotas in the console has it."
            )
            yield unknown(Topic.QUOTAS, f"{region}/{metrics[0]}", why, project)
        elif wanted is None:
            why = f"How many vCPUs {recipe.machine_type} has is not known, nor whether {quota.metric} is enough."
            yield unknown(Topic.QUOTAS, f"{region}/{quota.metric}", why, project)
        elif quota.limit < wanted:
            yield _too_small(project, region, quota, wanted, preset)


def _everywhere(
    project: str,
    presets: Mapping[str, Recipe],
    vcpus: Mapping[str, int | None],
    limits: Mapping[str, Quota] | NotAnswered,
) -> Iterator[Finding]:
    if isinstance(limits, NotAnswered):
        if presets:
            yield unknown(Topic.QUOTAS, "everywhere", f"Quotas across regions in {project}: {limits.why}", project)
        return
    for preset, recipe in presets.items():
        for metric, wanted in (("GPUS_ALL_REGIONS", recipe.gpu_count), ("CPUS_ALL_REGIONS", vcpus.get(preset) or 0)):
            # Old projects have none, and no limit.
            if (quota := limits.get(metric)) is not None and quota.limit < wanted:
                yield _too_small(project, "", quota, wanted, preset)


def _too_small(project: str, region: str, quota: Quota, wanted: int, preset: str) -> Finding:
    """Ids of quotas as in Google's own errors: NVIDIA-A100-GPUS-per-project-region."""
    quota_id = f"{quota.metric.replace('_', '-')}-per-project{'-region' if region else ''}"
    dimensions = (f"--dimensions=region={region}",) if region else ()
    command = _joined(
        *("gcloud", "beta", "quotas", "preferences", "create", f"--project={project}"),
        *("--service=compute.googleapis.com", f"--quota-id={quota_id}", f"--preferred-value={wanted}", *dimensions),
    )
    where = f"in {region}" if region else "over all regions"
    sentence = (
        f"{quota.metric} of {project} is {quota.limit:g} {where} ({quota.usage:g} in use), and one VM of {preset} "
        f"takes {wanted}."
    )
    return needs(Topic.QUOTAS, f"{region}/{quota.metric}" if region else quota.metric, sentence, command, project)


# The families that have a metric of their own in the enum of `Quota.metric` (discovery document of compute v1); N1
# counts against CPUS. Those of newer families are in the Cloud Quotas API alone.
_FAMILIES = frozenset({"a2", "c2", "c2d", "c3", "e2", "m1", "m2", "m3", "n2", "n2d", "t2a", "t2d"})


def cpu_metrics(machine_type: str, model: ProvisioningModel) -> list[str]:
    family = machine_type.partition("-")[0]
    own = f"{family.upper()}_CPUS" if family in _FAMILIES else "CPUS"
    return ["PREEMPTIBLE_CPUS", own] if model in PREEMPTIBLE_QUOTA else [own]


@dataclass(frozen=True, slots=True)
class PresetAnswer:
    """A thing that a preset names, and whether it is there: an image, a machine type or a GPU in a zone."""

    preset: str
    kind: str  # "image", "machine type" or "GPU"
    name: str
    zone: str  # "" of an image
    is_there: bool | NotAnswered


def presets(project: str, answers: Sequence[PresetAnswer]) -> Iterator[Finding]:
    """Yields one line for each preset whose parts are all there, and one for each part that is not."""
    for preset in dict.fromkeys(one.preset for one in answers):
        own = [one for one in answers if one.preset == preset]
        bad = [one for one in own if one.is_there is not True]
        if not bad:
            zones = list(dict.fromkeys(one.zone for one in own if one.zone))
            words = f"{preset}: its image, machine type and GPU are there in {count_text(len(zones), 'zone')}."
            yield ok(Topic.PRESETS, preset, words, preset)
        yield from (_preset_part(project, one) for one in bad)


def _preset_part(project: str, one: PresetAnswer) -> Finding:
    name = f"{one.zone}/{one.name}" if one.zone else one.name
    where = f" in {one.zone}" if one.zone else ""
    if isinstance(one.is_there, NotAnswered):
        return unknown(
            Topic.PRESETS, name, f"{one.preset}: {one.kind} {one.name}{where}: {one.is_there.why}", one.preset
        )
    key, listing = _listings(project, one)
    return needs(
        Topic.PRESETS,
        name,
        f"{one.preset}: there is no {one.kind} {one.name}{where}. Change launch.{key} to one that is listed.",
        listing,
        one.preset,
    )


def _listings(project: str, one: PresetAnswer) -> tuple[str, str]:
    """The key of the preset, and the command that lists what it may be."""
    if one.kind == "image":
        owner = one.name.split("/")[1] if one.name.startswith("projects/") else project
        return "image", _joined("gcloud", "compute", "images", "list", f"--project={owner}", "--no-standard-images")
    if one.kind == "GPU":
        return "zones", _joined("gcloud", "compute", "accelerator-types", "list", f"--filter=name={one.name}")
    return "zones", _joined("gcloud", "compute", "machine-types", "list", f"--filter=name={one.name}")


def _joined(*words: str) -> str:
    return shlex.join(words)


# What the role for jobs gives and no other role does.
_OF_JOBS = frozenset(held_by(LAUNCH_ROLE)) - {
    name for role in ROLES if role is not LAUNCH_ROLE for name in held_by(role)
}


def launches_in(granted: frozenset[str] | NotAnswered) -> bool:
    """Says whether a project is meant for jobs: something that only their role gives is granted, or it is not known."""
    return isinstance(granted, NotAnswered) or bool(granted & _OF_JOBS)
