"""Finds the service that answered: by a host, a permission, a gcloud command or a phrase of its own."""

from __future__ import annotations

import re

UNKNOWN = "unknown"

# The groups of gcloud's commands whose API has another name.
_GCLOUD = {
    "ai": "aiplatform", "app": "appengine", "auth": "oauth2", "billing": "cloudbilling", "builds": "cloudbuild",
    "domains": "domains", "endpoints": "servicemanagement", "functions": "cloudfunctions", "kms": "cloudkms",
    "org-policies": "orgpolicy", "organizations": "cloudresourcemanager", "projects": "cloudresourcemanager",
    "resource-manager": "cloudresourcemanager", "scheduler": "cloudscheduler", "secrets": "secretmanager",
    "services": "serviceusage", "sql": "sqladmin", "tasks": "cloudtasks", "workbench": "notebooks",
}  # fmt: skip
# The first part of a permission, where the API has another name.
_PERMISSIONS = {
    "resourcemanager": "cloudresourcemanager", "cloudsql": "sqladmin", "billing": "cloudbilling",
}  # fmt: skip
_HOST = re.compile(
    r"https?://(?:[a-z0-9-]{1,60}\.)?([a-z][a-z0-9-]{2,60})\.(?:mtls\.|clients6\.)?googleapis\.com\b", re.IGNORECASE
)
_WWW = re.compile(r"https?://www\.googleapis\.com/(?:upload/|batch/)?([a-z][a-z0-9]{2,40})/", re.IGNORECASE)
_FIELD = re.compile(
    r"""(?<![\w.])(?:serviceName|service)["']?\s{0,9}[:=]\s{0,9}["']?([a-z][a-z0-9-]{1,60})\.googleapis\.com"""
)
_OF_SERVICE = re.compile(r"of service ['\"]?([a-z][a-z0-9-]{1,60})\.googleapis\.com", re.IGNORECASE)
_ACTIVATION = re.compile(r"/apis?/(?:api|library)/([a-z][a-z0-9-]{1,60})\.googleapis\.com")
_COMMAND = re.compile(r"\(gcloud\.((?:alpha\.|beta\.)?)([a-z][a-z-]{1,40})(?:\.([a-z][a-z-]{1,40}))?")
_ANY = re.compile(r"(?<![\w.-])([a-z][a-z0-9-]{2,60})\.googleapis\.com(?![\w.-])")
_REGION = re.compile(r"^[a-z]{2,20}-[a-z]{2,20}\d{1,2}-")  # us-central1-aiplatform.googleapis.com
_NO_APIS = frozenset({"type", "www", "console", "developers", "googleapis", "metadata", "accounts", "auth"})

# Phrases that one service alone uses; the first that is found counts.
_PHRASES = tuple(
    (name, re.compile("|".join(patterns), re.IGNORECASE))
    for name, patterns in {
        "oauth2": (
            r"oauth2\.googleapis\.com/token", "oauth2/v4/token", "invalid_grant", "invalid_rapt", "rapt_required",
            "invalid_client", "unauthorized_client", "deleted_client", "default credentials", "DefaultCredentialsError",
            "automatically determine credentials",
        ),
        "cloudresourcemanager": (r"(?:setting|applying|retrieving) IAM policy for (?:project|folder|organization)",),
        "iam": (r"IAM policy for service account",),
        "monitoring": ("permission to see metric", "Stackdriver"),
        "dataproc": ("Auto zone placement", "dataproc"),
        "serviceusage": (r"Services? '?\[[\w., -]{1,200}\]'? not found or permission denied",),
        "container": (
            r"GKE cluster(?!.{0,120}Google Compute Engine: Required)", "Node scale up",
            r"\bpod\b.{0,80}(?:schedul|quota|scale)",
            "Labels could not be set due to fingerprint mismatch", r"container\.clusters",
            "Insufficient (?:regional|project|global) quota to satisfy request",
        ),
        "tpu": (
            "Cloud TPU", r"\bTPU[\w]{2,60}ForTPUAPI", "no more capacity in the zone", r"tpus?\.nodes",
            "CreateNode requests",
        ),
        "aiplatform": (r"aiplatform\.googleapis\.com/", "custom_model_(?:training|serving)", "Vertex"),
        "run": (r"\b(?:Mem|Cpu|Nvidia\w{1,30})AllocPerProjectRegion", r"run\.services"),
        "bigquery": (r"\bBigQuery\b", r"bigquery\."),
        "storage": (
            "Cloud Storage", r"\bgs://", "gsutil", "billing account for the owning project", "project to be billed",
            r"storage\.googleapis", r"[\s.]storage\.(?:objects|buckets)\.", "AccessDeniedException: 403", "HMAC",
            "NoSuchBucket", "NoSuchKey", "UserProjectMissing",
        ),
        "compute": (
            "Compute Engine", "ZONE_RESOURCE_POOL", "compute#", "SERVICE_ACCOUNT_ACCESS_DENIED", "VM instance",
            r"Required ['\"]?[\w.]{3,80}['\"]? permission for", "does not have access to service account",
            r"Quota ['\"]?[A-Z][A-Z0-9_]{2,60}['\"]? exceeded", "resources available to fulfill",
            r"zone ['\"]projects/", "reservation",
            "RESOURCE_OPERATION_RATE_EXCEEDED", r"Instance ['\"][\w-]{1,63}['\"] creation failed",
            r"/zones/[\w-]{3,40}/(?:instances|disks|machineTypes|acceleratorTypes)", r"constraints/compute\.",
            "/global/(?:images|networks|snapshots|instanceTemplates)", r"accelerator types?\b", r"machine types?\b",
            "features are not compatible for creating instance",
        ),
    }.items()
)  # fmt: skip
_BY_CONSTRAINT = re.compile(r"constraints/([a-z]{2,40})\.")
_METADATA_SERVER = re.compile(r"metadata\.google\.internal|169\.254\.169\.254")


def service_in(text: str, permissions: tuple[str, ...] = (), api: str = "") -> str:
    """The short name of the service that answered (`compute`), or `unknown`. A disabled API speaks for itself."""
    if api:
        return api.removesuffix(".googleapis.com")
    for pattern in (_FIELD, _OF_SERVICE, _HOST, _WWW):
        for match in pattern.finditer(text):
            if (name := _REGION.sub("", match[1].lower())) not in _NO_APIS:
                return name
    if name := _of_command(text):
        return name
    for name, phrase in _PHRASES:
        if phrase.search(text):
            return name
    if permissions:
        first = permissions[0].partition(".")[0]
        return _PERMISSIONS.get(first, first)
    if _METADATA_SERVER.search(text):
        return "compute"
    for match in (*_ACTIVATION.finditer(text), *_ANY.finditer(text)):
        if match[1] not in _NO_APIS:
            return match[1]
    constraint = _BY_CONSTRAINT.search(text)
    return constraint[1] if constraint is not None and constraint[1] not in ("gcp", "custom") else UNKNOWN


def _of_command(text: str) -> str:
    match = _COMMAND.search(text)
    if match is None:
        return ""
    if match[2] == "compute" and (match[3] or "").startswith("tpu"):
        return "tpu"
    return _GCLOUD.get(match[2], match[2])
