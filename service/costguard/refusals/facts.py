"""Finds what an answer names: permission, API, quota with its limit, constraint, project, zone, account."""

from __future__ import annotations

import re
from collections.abc import Iterable

from costguard.refusals.explanation import Lacks, QuotaLack, RefusalKind
from costguard.refusals.kinds import NAMED_PERMISSION
from costguard.refusals.normal_form import Answer

ACT_AS = "iam.serviceAccounts.actAs"
USE_PROJECT = "serviceusage.services.use"
EVERYTHING = "https://www.googleapis.com/auth/cloud-platform"

_TO_SERVICE = re.compile(r"Permission denied to (enable|list|get|disable) services?\b")

_API = (
    re.compile(r"/apis?/(?:api|library)/([a-z][a-z0-9-]{1,60}\.googleapis\.com)"),
    re.compile(r"""(?<![\w.])service["']?\s{0,9}[:=]\s{0,9}["']?([a-z][a-z0-9-]{1,60}\.googleapis\.com)"""),
    re.compile(r"(?:API|[Ss]ervice|for)\s['\"\[]{1,2}([a-z][a-z0-9-]{1,60}\.googleapis\.com)"),
    re.compile(r"gcloud services enable ([a-z][a-z0-9-]{1,60}\.googleapis\.com)"),
    re.compile(r"\"data\": \"?([a-z][a-z0-9-]{1,60}\.googleapis\.com)"),
)
# Names of APIs that old answers give without their host.
_TITLES = {
    "Compute Engine": "compute", "Kubernetes Engine": "container", "Cloud TPU": "tpu", "BigQuery": "bigquery",
    "Cloud Monitoring": "monitoring", "Stackdriver Monitoring": "monitoring",
    "Cloud Resource Manager": "cloudresourcemanager",
    "Service Usage": "serviceusage", "Cloud Billing": "cloudbilling", "Secret Manager": "secretmanager",
    "Identity and Access Management": "iam", "Cloud Storage": "storage", "Cloud Logging": "logging",
    "Cloud Pub/Sub": "pubsub",
    "Notebooks": "notebooks", "Cloud Asset": "cloudasset", "Cloud Quotas": "cloudquotas", "Vertex AI": "aiplatform",
    "Organization Policy": "orgpolicy", "Cloud Workstations": "workstations",
}  # fmt: skip
_TITLE = re.compile(rf"({'|'.join(re.escape(title) for title in _TITLES)})(?: \(\w{{2,5}}\))? API")
_ID = r"[a-z0-9][a-z0-9.:-]{2,62}"
_PROJECT = (
    re.compile(rf"""consumer["']?\s{{0,9}}[:=]\s{{0,9}}["']?projects/({_ID})"""),
    re.compile(
        rf"""(?:project_number|projectNumber|project_id|projectId|containerInfo)["']?[:=]\s{{0,9}}["']?({_ID})"""
    ),
    re.compile(rf"[?&]project=({_ID})"),
    re.compile(rf"\b[Pp]roject(?:s instance)?\s(?:#|'|\"|\[|projects/|number\s)?({_ID})(?=['\"\s,;:.)(\]]|$)"),
    re.compile(rf"\bprojects/({_ID})"),
    re.compile(rf"projects?:\s['\"]?({_ID})['\"]?\n"),
)
_NO_PROJECT = frozenset(  # words that follow "project" in a sentence
    (
        *("and", "api", "apis", "because", "before", "billing", "can", "does", "for", "from", "has", "have", "ids"),
        *("instance", "level", "may", "must", "not", "number", "owner", "owners", "per", "quota", "that", "the"),
        *("this", "was", "which", "with"),
    )
)
_ZONE = (
    re.compile(r"""(?<![\w.])zone["']?\s{0,9}[:=]\s{0,9}["']?([a-z]{2,20}-[a-z]{2,20}\d{1,2}-[a-z])(?![\w-])"""),
    re.compile(r"zones?[/: ]['\"]?([a-z]{2,20}-[a-z]{2,20}\d{1,2}-[a-z])(?![\w-])"),
    re.compile(r"(?:in|the|fulfill request:)\s(?:the\s)?([a-z]{2,20}-[a-z]{2,20}\d{1,2}-[a-z])(?![\w-])"),
    re.compile(r"(?:in region|regions/|region:?)\s?['\"]?([a-z]{2,20}-[a-z]{2,20}\d{1,2})(?![\w-])"),
)
_ZONES_AVAILABLE = (
    re.compile(r"""zonesAvailable["']?\s{0,9}[:=]\s{0,9}["']?([a-z0-9, -]{5,400})"""),
    re.compile(r"your\s+request\s+in\s+the\s+([a-z0-9,\s-]{5,400}?)\s+zone"),
)
_ONE_ZONE = re.compile(r"[a-z]{2,20}-[a-z]{2,20}\d{1,2}-[a-z]")
_EMAIL = r"[\w.+-]{1,100}@[\w-]{1,80}(?:\.[\w-]{1,60}){1,6}"
_PRINCIPAL = (
    re.compile(rf"""principalEmail["']?\s{{0,9}}[:=]\s{{0,9}}["']?({_EMAIL})"""),
    re.compile(rf"({_EMAIL}) (?:does not|doesn't|do not|is not|lacks?|needs?)\b"),
    re.compile(rf"(?:[Uu]ser|account|principal|caller) ['\"\[]?({_EMAIL})['\"\]]? (?:does not|doesn't|is not|lacks?)"),
)
_ACCOUNT = re.compile(rf"(?:service account|serviceAccounts/)\s?['\"]?({_EMAIL})")
_RESOURCE = (
    re.compile(
        r"(?:permission|access)\s(?:for|on|to)\s(?:resource\s|object\s|bucket\s)?['\"]?(//[\w.-]{3,80}/[^\s'\",]{2,300}|(?:projects|organizations|folders)/[^\s'\",]{2,300})"
    ),
    re.compile(
        r"denied (?:on|for) (?:resource project|resource|service account|project|bucket|secret):? ['\"]?"
        r"([^\s'\"()]{3,300})"
    ),
    re.compile(
        r"""(?<![\w.])resource(?:Name)?["']?\s{0,9}[:=]\s{0,9}["']?((?://[\w.-]{3,80}/|projects/)[^\s'",]{2,300})"""
    ),
    re.compile(r"\bb/([a-z0-9][\w.-]{2,62})[/?]"),
    re.compile(r"\bgs://([a-z0-9][\w.-]{2,62})"),
    re.compile(r"access to (?:object |bucket )?(?!the )([a-z0-9][\w.-]{2,62})(?:/|\.?(?:\s|$|\"))"),
    re.compile(r"[Tt]he resource '([^']{3,300})' (?:was not found|already exists|is not ready)"),
    re.compile(r"'([^']{3,300})'\. The referenced \w{2,40} resource cannot be found"),
    re.compile(r"<?(?:BucketName|Bucket)>?:? ([a-z0-9][\w.-]{2,62})"),
)
_CONSTRAINT = re.compile(r"(?:customC|c)onstraints/[a-zA-Z]{2,40}\.[\w.]{2,100}\w")
_BARE_CONSTRAINT = re.compile(
    r"(?:[Cc]onstraint|policy) ['\"]?((?:compute|iam|gcp|storage|sql|run|ainotebooks)\.[\w.]{2,100}\w)"
)
_UNIQUE_ID = re.compile(r"vpcServiceControlsUniqueI(?:dentifier|d)[\"']?:?\s{0,9}[\"']?([\w-]{5,200})", re.IGNORECASE)
_UID = re.compile(r"""(?<![\w.])uid["']?\s{0,9}:\s{0,9}["']?([\w-]{5,200})""")
_SCOPE = re.compile(r"https://www\.googleapis\.com/auth/[\w.-]{2,60}")
_RESERVATION = (
    re.compile(
        r"[Rr]eservations?:?\s[\[\"']{0,2}(?:projects/[^/\s]{1,63}/(?:zones/[^/\s]{1,40}/)?reservations/)?([a-z][a-z0-9-]{1,62})['\"\]]"
    ),
    re.compile(r"reservations/([a-z][a-z0-9-]{1,62})"),
)
_BILLING_ACCOUNT = re.compile(r"\b([0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6})\b")

_NUMBER = r"['\"]?(-?\d[\d,]{0,20}(?:\.\d{1,9})?)['\"]?"
_METRIC = (
    re.compile(r"Quota(?: limit)? ['\"]?([A-Za-z][\w.-]{2,100})['\"]?\s{1,9}(?:has been )?exceeded", re.IGNORECASE),
    re.compile(r"quota metrics exceed quota limits: ([\w./,\s-]{3,300}?)(?=[\"'\n]|$)"),
    re.compile(r"resource:? ['\"]([A-Z][\w]{2,100})['\"](?:: request|\. The request) requires"),
    re.compile(r"quota metric ['\"]([^'\"]{2,100})['\"]"),
    re.compile(r"quota (?:limit )?(?:on|for) ['\"]?([A-Za-z][\w./-]{2,120})", re.IGNORECASE),
    re.compile(r"[Mm]etric(?: name)?[\"']?\s{0,9}[:=]\s{0,9}[\"']?([\w./-]{3,120})"),
    re.compile(r"metricName[\"']?\s{0,9}[:=]\s{0,9}[\"']?([\w./-]{3,120})"),
    re.compile(r"quota_metric[\"']?\s{0,9}[:=]\s{0,9}[\"']?([\w./-]{3,120})"),
    re.compile(r"\b([A-Z][A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){1,6})\b[^\n]{0,80}\bquota"),
)
_LIMIT_NAME = re.compile(r"""(?:limitName|limit[ _]name|quota_limit(?!_))["']?\s{0,9}[:=]\s{0,9}["']?([\w-]{3,120})""")
_LIMIT_OF_RATE = re.compile(r"limit ['\"]([^'\"]{3,120})['\"]")
_LIMIT = re.compile(
    rf"(?:[Ll]imit:|(?<![\w.])limit[\"']?\s{{0,9}}[:=]|quota_limit_value[\"']?\s{{0,9}}[:=]|quota of|allowed:)"
    rf"\s{{0,9}}{_NUMBER}"
)
_USAGE = re.compile(rf"(?:[Uu]sage|[Cc]urrent usage|in use)[\"']?\s{{0,3}}[:=]\s{{0,9}}{_NUMBER}")
_REQUESTED = re.compile(rf"(?:requires|[Rr]equested:?)\s{{0,9}}{_NUMBER}")
_FUTURE = re.compile(rf"(?:futureLimit|future limit)[\"']?\s{{0,9}}[:=]\s{{0,9}}{_NUMBER}", re.IGNORECASE)
_REGION = re.compile(
    r"(?:in region|in zone|(?<![\w.])region[\"']?\s{0,9}[:=]|map\[region:)\s{0,9}['\"]?"
    r"([a-z]{2,20}-[a-z]{2,20}\d{1,2}(?:-[a-z])?)"
)
_FAMILY = re.compile(r"""gpu_family["']?\s{0,9}[:=]\s{0,9}["']?([A-Z][A-Z0-9_]{2,40})""")
_GLOBAL = re.compile(r"\bglobally\b|ALL_REGIONS")


def missing_in(answer: Answer, kind: RefusalKind) -> Lacks:
    """Returns what the answer names, of what matters to its kind."""
    text = answer.text
    is_denied = kind is RefusalKind.PERMISSION
    is_quota = kind in (RefusalKind.QUOTA, RefusalKind.RATE_LIMITED)
    return Lacks(
        permissions=_permissions(text) if is_denied else (),
        api=_api(text) if kind is RefusalKind.API_DISABLED else "",
        scopes=(tuple(dict.fromkeys(_SCOPE.findall(text)))[:10] or (EVERYTHING,)) if kind is RefusalKind.SCOPE else (),
        constraints=_constraints(text) if kind is RefusalKind.ORG_POLICY else (),
        quota=_quota(text) if is_quota else None,
        reservation=_first(_RESERVATION, text) if kind is RefusalKind.RESERVATION else "",
        principal=_first(_PRINCIPAL, text),
        resource=_resource(text, kind),
        project=_project(text),
        zone=_first(_ZONE, text),
        zones_available=_zones(text) if kind is RefusalKind.STOCKOUT else (),
        identifier=(_found(_UNIQUE_ID, text) or _found(_UID, text)) if kind is RefusalKind.VPC_SERVICE_CONTROLS else "",
        billing_account=_found(_BILLING_ACCOUNT, text),
    )


def _first(patterns: Iterable[re.Pattern[str]], text: str) -> str:
    return next((value for pattern in patterns if (value := _found(pattern, text))), "")


def _found(pattern: re.Pattern[str], text: str) -> str:
    """Returns the value that a pattern finds, in one line."""
    match = pattern.search(text)
    return " ".join(match[1].split()) if match is not None else ""


def _permissions(text: str) -> tuple[str, ...]:
    named = [next(one for one in match.groups() if one) for match in NAMED_PERMISSION.finditer(text)]
    if not named and re.search("SERVICE_ACCOUNT_ACCESS_DENIED|does not have access to service account", text):
        named = [ACT_AS]
    if not named and re.search("USER_PROJECT_DENIED|permission to use project", text):
        named = [USE_PROJECT]
    if not named and (match := _TO_SERVICE.search(text)):
        named = [f"serviceusage.services.{match[1]}"]
    return tuple(dict.fromkeys(one for one in named if not one.endswith((".com", ".py"))))[:20]


def _api(text: str) -> str:
    if api := _first(_API, text):
        return api
    title = _TITLE.search(text)
    return f"{_TITLES[title[1]]}.googleapis.com" if title is not None else ""


def _constraints(text: str) -> tuple[str, ...]:
    named = _CONSTRAINT.findall(text) or [f"constraints/{one}" for one in _BARE_CONSTRAINT.findall(text)]
    return tuple(dict.fromkeys(named))[:10]


def _project(text: str) -> str:
    for pattern in _PROJECT:
        for match in pattern.finditer(text):
            name = match[1].rstrip(".:-")
            if name not in _NO_PROJECT and len(name) > 2:
                return name
    return ""


def _resource(text: str, kind: RefusalKind) -> str:
    account = _ACCOUNT.search(text)
    if account is not None and kind is RefusalKind.PERMISSION:
        return account[1]
    return _first(_RESOURCE, text).rstrip(".,;:")


def _zones(text: str) -> tuple[str, ...]:
    named = (match[1] for pattern in _ZONES_AVAILABLE for match in pattern.finditer(text))
    return tuple(dict.fromkeys(zone for part in named for zone in _ONE_ZONE.findall(part)))[:20]


def _quota(text: str) -> QuotaLack | None:
    metric = " ".join(_first(_METRIC, text).split()).rstrip(".,:")
    name = _found(_LIMIT_NAME, text) or _found(_LIMIT_OF_RATE, text)
    where = _found(_REGION, text) or ("global" if _GLOBAL.search(text) else "")
    quota = QuotaLack(
        metric or name,
        name,
        where,
        _figure(_LIMIT, text),
        _figure(_USAGE, text),
        _figure(_REQUESTED, text),
        _found(_FAMILY, text),
        _figure(_FUTURE, text),
    )
    return quota if quota.metric or quota.limit else None


def _figure(pattern: re.Pattern[str], text: str) -> str:
    """`2000` for 2000.0."""
    return re.sub(r"\.0+$", "", _found(pattern, text).replace(",", ""))
