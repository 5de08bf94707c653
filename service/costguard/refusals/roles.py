"""The command that grants one permission: with the narrowest predefined role that holds it, on the thing it is about.

Roles from https://cloud.google.com/iam/docs/roles-permissions; where none is certain, the command leaves it open.
"""

from __future__ import annotations

import re

from costguard.refusals.explanation import Lacks

# The first pattern that fits a permission counts.
_ROLES = tuple(
    (re.compile(rf"(?:{pattern})\Z", re.IGNORECASE), role)
    for pattern, role in (
        (r"iam\.serviceAccounts\.actAs", "roles/iam.serviceAccountUser"),
        (
            r"iam\.serviceAccounts\.(?:getAccessToken|getOpenIdToken|signBlob|signJwt|implicitDelegation)",
            "roles/iam.serviceAccountTokenCreator",
        ),
        (r"serviceusage\.services\.use", "roles/serviceusage.serviceUsageConsumer"),
        (r"serviceusage\.services\.(?:enable|disable)", "roles/serviceusage.serviceUsageAdmin"),
        (r"serviceusage\.\w+\.(?:get|list)", "roles/serviceusage.serviceUsageViewer"),
        (r"resourcemanager\.projects\.(?:get|list)", "roles/browser"),
        (r"compute\.advice\.\w+", "roles/compute.viewer"),
        (r"compute\.(?:subnetworks|networks)\.use\w*", "roles/compute.networkUser"),
        (r"compute\.instances\.(?!getIamPolicy|setIamPolicy)(?!get\Z|list\Z)\w+", "roles/compute.instanceAdmin.v1"),
        (
            r"compute\.(?:disks|instanceTemplates|instanceGroups|instanceGroupManagers|autoscalers|machineImages)\.(?:create|delete|update|use|useReadOnly|set\w+|resize|createSnapshot)",
            "roles/compute.instanceAdmin.v1",
        ),
        (r"compute\.images\.useReadOnly", "roles/compute.imageUser"),
        (r"compute\.(?:images|snapshots)\.(?:create|delete|update|set\w+)", "roles/compute.storageAdmin"),
        (
            r"compute\.(?:networks|subnetworks|routers|addresses|routes|firewalls)\.(?:create|delete|update|set\w+)",
            "roles/compute.networkAdmin",
        ),
        (r"compute\.\w+\.(?:get|list|aggregatedList)\w*", "roles/compute.viewer"),
        (r"monitoring\.\w+\.(?:get|list)", "roles/monitoring.viewer"),
        (r"monitoring\.timeSeries\.create", "roles/monitoring.metricWriter"),
        (r"tpu\.\w+\.(?:get|list)", "roles/tpu.viewer"),
        (r"tpu\.\w+\.\w+", "roles/tpu.admin"),
        (r"bigquery\.jobs\.create", "roles/bigquery.jobUser"),
        (r"bigquery\.readsessions\.\w+", "roles/bigquery.readSessionUser"),
        (r"bigquery\.(?:tables|datasets)\.(?:get\w*|list|export)", "roles/bigquery.dataViewer"),
        (r"bigquery\.(?:tables|datasets)\.\w+", "roles/bigquery.dataEditor"),
        (r"storage\.objects\.(?:get|list)", "roles/storage.objectViewer"),
        (r"storage\.objects\.create", "roles/storage.objectCreator"),
        (r"storage\.objects\.(?:delete|update|restore|move)", "roles/storage.objectUser"),
        (r"storage\.buckets\.get", "roles/storage.bucketViewer"),
        (r"storage\.\w+\.\w+", "roles/storage.admin"),
        (r"secretmanager\.versions\.access", "roles/secretmanager.secretAccessor"),
        (r"secretmanager\.\w+\.(?:get|list)", "roles/secretmanager.viewer"),
        (r"secretmanager\.\w+\.\w+", "roles/secretmanager.admin"),
        (r"logging\.\w+\.(?:get|list)", "roles/logging.viewer"),
        (r"logging\.logEntries\.create", "roles/logging.logWriter"),
        (r"pubsub\.subscriptions\.consume", "roles/pubsub.subscriber"),
        (r"pubsub\.topics\.publish", "roles/pubsub.publisher"),
        (r"pubsub\.\w+\.(?:get|list)", "roles/pubsub.viewer"),
        (r"cloudasset\.assets\.\w+", "roles/cloudasset.viewer"),
        (r"cloudquotas\.quotas\.(?:get|list)", "roles/cloudquotas.viewer"),
        (r"cloudquotas\.quotas\.update", "roles/cloudquotas.admin"),
        (r"container\.\w+\.(?:get|list)", "roles/container.viewer"),
        (r"orgpolicy\.polic(?:y|ies)\.get", "roles/orgpolicy.policyViewer"),
        (r"notebooks\.\w+\.(?:get|list)", "roles/notebooks.viewer"),
        (r"notebooks\.\w+\.\w+", "roles/notebooks.runner"),
        (r"workstations\.\w+\.\w+", "roles/workstations.admin"),
        (r"billing\.resourceAssociations\.\w+", "roles/billing.user"),
        (r"aiplatform\.\w+\.(?:get|list)", "roles/aiplatform.viewer"),
        (r"aiplatform\.\w+\.\w+", "roles/aiplatform.user"),
    )
)
_SECRET = re.compile(r"projects/([^/]+)/secrets/([\w-]+)")
_BUCKET = re.compile(
    r"(?:projects/_/buckets/|//storage\.googleapis\.com/(?:projects/_/buckets/)?|gs://|\A)([a-z0-9][\w.-]{2,62})(?:/|\Z)"
)
_ACCOUNT = re.compile(r"([\w.+-]{1,100}@[\w.-]{3,200})")


def role_of(permission: str) -> str:
    """A predefined role that holds the permission; "" where none is certain."""
    return next((role for pattern, role in _ROLES if pattern.match(permission)), "")


def granting(missing: Lacks, member: str = "") -> str:
    """The command that grants the first permission that lacks, on the account, bucket, secret or project."""
    permission = missing.permissions[0] if missing.permissions else ""
    account = member or missing.principal
    given = f"--member={_member(account)} --role={role_of(permission) or 'ROLE'}"
    project = missing.project or "PROJECT"
    lower = permission.lower()
    if lower.startswith("iam.serviceaccounts."):
        target = _ACCOUNT.search(missing.resource)
        return (
            f"gcloud iam service-accounts add-iam-policy-binding {target[1] if target else 'SERVICE_ACCOUNT'} {given}"
        )
    if lower.startswith("storage.") and not lower.startswith(
        ("storage.hmackeys", "storage.buckets.list", "storage.buckets.create")
    ):
        bucket = _BUCKET.search(missing.resource)
        return f"gcloud storage buckets add-iam-policy-binding gs://{bucket[1] if bucket else 'BUCKET'} {given}"
    if lower.startswith("secretmanager.") and (secret := _SECRET.search(missing.resource)):
        return f"gcloud secrets add-iam-policy-binding {secret[2]} --project={secret[1]} {given}"
    if lower.startswith("billing.") and missing.billing_account:
        return f"gcloud billing accounts add-iam-policy-binding {missing.billing_account} {given}"
    return f"gcloud projects add-iam-policy-binding {project} {given}"


def _member(account: str) -> str:
    if not account:
        return "serviceAccount:ACCOUNT"
    return f"{'serviceAccount' if account.endswith('gserviceaccount.com') else 'user'}:{account}"
