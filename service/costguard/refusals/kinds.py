"""Decides of which kind an answer of Google's is: an ordered table, whose first row that fits counts.

What no role mends stands above what one may mend: a perimeter, a policy, a scope or a closed account also answers 403,
often with words about permission. Reasons are those of
https://github.com/googleapis/googleapis/blob/master/google/api/error_reason.proto and of Compute Engine's operations.
"""

from __future__ import annotations

import re
from functools import lru_cache

from costguard.refusals.explanation import RefusalKind
from costguard.refusals.normal_form import Answer

_PERMISSION_NAME = r"[a-z][a-zA-Z0-9]{1,40}\.[a-zA-Z0-9]{1,60}(?:\.[a-zA-Z0-9]{1,60}){0,2}"
NAMED_PERMISSION = re.compile(
    rf"""[Rr]equired?\s['"]?(?P<a>{_PERMISSION_NAME})['"]?\s(?:permission|access)
    |[Pp]ermissions?\s['"]?(?P<b>{_PERMISSION_NAME})['"]?\s(?:is\s|was\s|were\s)?(?:denied|required|missing|not\sgranted)
    |(?:does\snot|doesn't|do\snot)\shave\s(?:the\s)?['"]?(?P<c>{_PERMISSION_NAME})['"]?\s(?:access|permission)
    |(?:need|needs|lacks?|lacking|missing|requires?|with|without)\s(?:the\s)?(?:permissions?:?\s)?['"]?(?P<d>{_PERMISSION_NAME})['"]?\spermission
    |(?:lacks?|missing)\s(?:the\s|required\s|necessary\s)?permissions?:?\s['"\[]{{0,2}}(?P<e>{_PERMISSION_NAME})
    |(?<![\w.])(?:permission|requiredPermission|missingPermission)["']?\s{{0,9}}:\s{{0,9}}["']?(?P<f>{_PERMISSION_NAME})(?![\w.])""",
    re.VERBOSE,
)


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_PERIMETER = _any(
    r"vpcServiceControls?Uniq", r"SECURITY_POLICY_VIOLATED", r"VPC[_ ]SERVICE[_ ]CONTROLS",
    r"VpcServiceControlAuditMetadata", r"prohibited by organization's policy",
    r"RESOURCES_NOT_IN_SAME_SERVICE_PERIMETER", r"NO_MATCHING_ACCESS_LEVEL", r"service perimeter",
)  # fmt: skip
_POLICY = _any(
    r"(?<![\w])(?:custom)?[cC]onstraints/[a-z]", r"violates? (?:the )?(?:organi[sz]ation(?:al)? policy|constraint)",
    r"\borg(?:anization)? polic(?:y|ies)\b(?! api| service| administrator)", r"ORG_POLICY",
    r"LOCATION_(?:TAX_)?POLICY_VIOLATED", r"ORG_RESTRICTION_VIOLATION", r"RESOURCE_USAGE_RESTRICTION_VIOLATED",
    r"SYSTEM_PARAMETER_UNSUPPORTED_POLICY",
    r"(?:denied|blocked|refused|prohibited) by (?:an? )?(?:IAM )?(?:deny|organi[sz]ation(?:al)?|"
    r"principal access boundary) polic",
    r"\bdeny polic(?:y|ies)\b", r"principal access boundary", r"constraint .{1,80} violated",
    r"USER_BLOCKED_BY_ADMIN|TLS_\w{3,20}_VIOLATED|CONTEXT_AWARE_ACCESS|context-aware access",
    r"(?:iam|compute|storage|gcp|sql|run)\.(?:managed|restrict|disable|require|"
    r"allowed)[A-Za-z.]{2,60}\b.{0,40}\b(?:violat|enforce)",
)  # fmt: skip
_OAUTH = _any(
    r"\binvalid_grant\b", r"\binvalid_rapt\b", r"\brapt_required\b", r"\binvalid_client\b",
    r"\bunauthorized_client\b", r"\binvalid_target\b", r"\baccess_denied\b", r"\bdeleted_client\b",
    r"DefaultCredentialsError", r"default credentials (?:were|are) not (?:found|available)",
    r"could not (?:automatically determine|find default) credentials",
    r"could not load the default credentials", r"ReauthFail|Reauthentication (?:failed|is needed|required)",
    r"no active account|do not currently have an active account",
    r"ACCESS_TOKEN_(?:EXPIRED|TYPE_UNSUPPORTED)", r"CREDENTIALS_MISSING",
    r"SERVICE_ACCOUNT_(?:DISABLED|DELETED)", r"ACCOUNT_STATE_INVALID", r"SESSION_COOKIE_(?:INVALID|EXPIRED)",
    r"LOGIN_COOKIE",
    r"API[_ ]KEY[_ ](?:INVALID|EXPIRED|\w{2,30}_BLOCKED)",
    r"API key (?:not valid|expired|not found)", r"invalid (?:authentication )?credentials",
    r"invalid authentication credential", r"authentication credentials? (?:were|was|is) (?:not|missing)",
    r"\bauthError\b", r"missing required authentication", r"login required", r"SignatureDoesNotMatch",
    r"InvalidAccessKeyId|InvalidSecurity|RequestTimeTooSkewed|ExpiredToken", r"Anonymous (?:caller|user)",
    r"token (?:has been |is |was )?(?:expired|revoked)",
    r"service account .{0,80}(?:is disabled|does not exist\b.{0,20}token)",
    r"problem refreshing your current auth tokens", r"Failed to retrieve http://metadata\.google\.internal",
)  # fmt: skip
_IMPERSONATION = _any(
    r"IAM_PERMISSION_DENIED", r"iam\.serviceAccounts\.(?:getAccessToken|getOpenIdToken|signBlob|signJwt)",
    r"USER_PROJECT_DENIED",
)  # fmt: skip
_SCOPE = _any(
    r"ACCESS_TOKEN_SCOPE_INSUFFICIENT", r"insufficient authentication scopes?", r"insufficient_?scopes?\b",
    r"\binvalid_scope\b", r"denied while getting Drive credentials", r"correct permission scopes",
    r"(?:required|missing|needs? the|lacks? the) (?:oauth )?scopes?\b",
    r"scopes? (?:is|are) (?:insufficient|missing|not granted)",
    # Compute Engine's words for a VM's scopes: they name no permission, as a denial by IAM does.
    r"(?<!\w)Insufficient Permission(?!s|:? .{0,40}\bpermission)",
)  # fmt: skip
_BILLING = _any(
    r"BILLING_(?:DISABLED|NOT_FOUND|NOT_OPEN|NOT_ENABLED)", r"UREQ_PROJECT_BILLING", r"billingNotEnabled",
    r"\baccountDisabled\b", r"AccountProblem", r"requires? billing to be enabled",
    r"billing (?:must|has to|needs to) be enabled", r"(?:has|have) billing disabled",
    r"billing is (?:disabled|not enabled)", r"billing (?:has not been|was not|not) enabled",
    r"billing account\b.{0,120}\b(?:is|are|was|has been|been) (?:disabled|closed|absent|not found|"
    r"not open|not valid|invalid|suspended|delinquent|not in good standing|not active|inactive|past due)",
    r"(?:absent|closed|delinquent|disabled|suspended|invalid) billing account",
    r"enable billing (?:on|for) (?:the )?project", r"billing account .{0,60}not (?:found|open)",
    r"no (?:open |active )?billing account", r"(?:has|have) not configured billing",
)  # fmt: skip
_API_OFF = _any(
    r"SERVICE_DISABLED", r"accessNotConfigured", r"Access Not Configured", r"has not been used in project",
    r"API\b.{0,60}\b(?:is |has )?(?:not (?:been )?enabled|disabled)\b",
    r"not enabled (?:on|for|in) (?:the |your )?project", r"before or it is disabled",
    r"Enable it by visiting", r"UREQ_TOS_NOT_ACCEPTED",
    r"service .{0,60}\.googleapis\.com.{0,10} is not enabled",
)  # fmt: skip
_STOCK = _any(
    r"RESOURCE_POOL_EXHAUSTED", r"does\s+not\s+have\s+enough\s+resources\s+available",
    r"no more capacity in the zone", r"not\s+currently\s+have\s+sufficient\s+capacity",
    r"\bresource_availability\b", r"\bSTOCKOUT",
    r"is\s+currently\s+unavailable\s+in\s+the\s+[\w-]{3,40}\s+(?:zone|region)", r"Insufficient capacity",
    r"not enough (?:capacity|resources)", r"resources? (?:is|are) (?:exhausted|unavailable) in (?:the )?zone",
    r"out of (?:capacity|stock)", r"GCE_STOCKOUT", r"(?:currently )?lacks? (?:the )?capacity",
    r"no capacity (?:is )?available", r"RESOURCE_AVAILABILITY",
)  # fmt: skip
_RESERVATION = _any(
    r"\bRESERVATION_(?:NOT_FOUND|NOT_READY|INCOMPATIBLE|CAPACITY_EXCEEDED|DELETED)",
    r"AUTOMATIC_RESERVATIONS_NOT_AVAILABLE", r"Specified reservations?\b", r"in specified reservations?",
    r"to a reservation with status", r"automatic reservation", r"Insufficient reserved capacity",
    r"reservations?\b[^.\n]{0,160}\b(?:does not exist|not found|was not found|does not match|do not match|"
    r"not match|incompatible|can ?not be targeted|not ready|is full|fully used|no capacity|expired|"
    r"deleted|not shared)",
    r"(?:does not|do not|doesn't) match (?:the )?(?:any )?(?:specified )?reservation",
    r"\bspecificReservation(?:Required)?\b",
)  # fmt: skip
_PER_TIME = r"per (?:\d{1,6} )?(?:seconds?|minutes?|hours?|days?)"
_RATE = _any(
    r"RATE_LIMIT_EXCEEDED", r"exhausted \(e\.g\. check quota\)",
    r"rateLimitExceeded", r"userRateLimit", r"concurrentLimitExceeded",
    r"dailyLimitExceeded", r"OPERATION_RATE_EXCEEDED", r"rate ?limit(?:ed)?\b(?:.{0,40}exceed)?",
    r"too (?:many|frequent) (?:requests|operations)", r"TooManyRequests", r"\bSlowDown\b",
    rf"quota (?:exceeded )?(?:for|on) quota (?:metric|group)[^\n]{{0,200}}{_PER_TIME}",
    rf"(?:limit|quota|maximum)[^\n]{{0,160}}(?:requests?|queries|operations|reads?|writes?|"
    rf"calls?)[^\n]{{0,60}}{_PER_TIME}",
    r"""quota_limit[\"']?: [\"']?\w{0,60}Per(?:Minute|Second|Day|Hour)""",
    r"reduce (?:your|the) request rate",
    r"(?:Read|Write|List|Query|Queries)(?:Group| requests?)\b.{0,20}\bquota",
)  # fmt: skip
_QUOTA = _any(
    r"QUOTAS?_EXCEEDED", r"quotaExceeded", r"RESOURCE_QUOTA_EXCEEDED",
    r"\bquota\b[^\n]{0,200}\b(?:exceed|short|reached|limit)", r"exceed\w{0,3}\b[^\n]{0,60}\bquota",
    r"(?:hit|over|reached|insufficient|not enough|no|exhausted)\b[^\n]{0,30}\bquotas?\b",
    r"\bLIMIT_EXCEEDED\b", r"AllocPerProjectRegion", r"quota metrics exceed",
    r"FREE_TIER_|limit exceeded for (?:resource|metric)",
)  # fmt: skip
_ACT_AS = _any(
    r"SERVICE_ACCOUNT_ACCESS_DENIED", r"does not have access to service account",
)  # fmt: skip
_NOT_FOUND_OR_DENIED = _any(
    r"CONSUMER_INVALID|RESOURCE_PROJECT_INVALID|CONSUMER_NOT_FOUND",
    r"(?:Services?|[Pp]rojects?) ['\"\[]{0,2}[\w.:, -]{1,200}['\"\]]{0,2} not found or permission denied",
    r"project .{0,80}\b(?:not found or deleted|has been deleted|is (?:scheduled|pending) for deletion)",
    r"Unknown service account",
)  # fmt: skip
_PERMISSION = _any(
    r"IAM_PERMISSION_DENIED", r"USER_PROJECT_DENIED", r"PERMISSIONS?_(?:DENIED|ERROR)", r"permission denied",
    r"(?:caller|user|account|principal)\b.{0,120}\bdoes not have (?:the )?(?:required |sufficient |"
    r"necessary |enough )?permission",
    r"insufficient ?permissions", r"\bforbidden\b", r"access denied|accessDenied|AccessDenied",
    r"access (?:to .{1,120} )?(?:was|is) denied", r"not authori[sz]ed",
    r"missing (?:necessary |required )?permissions?",
)  # fmt: skip
_MISSING_THING = _any(
    r"RESOURCE_NOT_FOUND", r"\bnotFound\b", r"(?:was|were|is|are) not found", r"can(?:not| not|'t) be found",
    r"NoSuch(?:Bucket|Key|Upload)", r"could not (?:be found|find)", r"entity was not found",
    r"\bunknown project\b", r"\bNOT_FOUND\b",
    r"(?:bucket|project|image|instance|object|resource)\b.{0,160}\bdoes not exist(?! in zone)",
)  # fmt: skip
_WRONG = _any(
    r"INVALID_(?:ARGUMENT|USAGE|FIELD|VALUE)", r"\bbadRequest\b", r"\binvalid\b", r"FAILED_PRECONDITION",
    r"conditionNotMet|CONDITION_NOT_MET", r"ALREADY_EXISTS|alreadyExists|already exists", r"\bconflict\b",
    r"resourceNotReady|RESOURCE_NOT_READY|is not ready", r"resourceInUse\w{0,40}|RESOURCE_IN_USE\w{0,40}",
    r"not compatible|incompatible|UNSUPPORTED", r"fingerprint", r"\bUserProjectMissing\b|requester pays",
    r"OUT_OF_RANGE", r"ABORTED", r"does not exist", r"required field|parameterMissing|MISSING_PARAMETER",
)  # fmt: skip


# Google has stopped the project itself: no role and no account of the project's mends it.
SUSPENDED = _any(
    r"CONSUMER_SUSPENDED", r"GCP_SUSPENDED", r"has been suspended", r"(?:project|consumer|account) is suspended"
)


@lru_cache(maxsize=64)  # what fails is tried again, and gets the same answer
def kind_in(answer: Answer) -> RefusalKind:
    """The kind of an answer of Google's. UNKNOWN where nothing in it says what is wrong."""
    text, status = answer.text, answer.status
    denied = NAMED_PERMISSION.search(text)
    is_about_policies = denied is not None and "orgpolicy." in denied[0]
    if answer.is_page:
        return _of_page(status)
    if _PERIMETER.search(text):
        return RefusalKind.VPC_SERVICE_CONTROLS
    if _POLICY.search(text) and not is_about_policies and not _API_OFF.search(text):
        return RefusalKind.ORG_POLICY
    if SUSPENDED.search(text) and not _BILLING.search(text):
        return RefusalKind.UNKNOWN
    if _OAUTH.search(text) and not _IMPERSONATION.search(text):
        return RefusalKind.CREDENTIALS
    for kind, pattern in _ROWS:
        if pattern.search(text):
            return kind
    return _of_status(status)


def _of_page(status: int) -> RefusalKind:
    """A page says what its status says and no more."""
    return {401: RefusalKind.CREDENTIALS, 404: RefusalKind.NOT_FOUND, 429: RefusalKind.RATE_LIMITED}.get(
        status, RefusalKind.UNKNOWN
    )


def _of_status(status: int) -> RefusalKind:
    """Reads what a status alone says. 403 alone is no missing permission: it has too many causes."""
    return {
        400: RefusalKind.REQUEST,
        401: RefusalKind.CREDENTIALS,
        404: RefusalKind.NOT_FOUND,
        409: RefusalKind.REQUEST,
        412: RefusalKind.REQUEST,
        429: RefusalKind.RATE_LIMITED,
    }.get(status, RefusalKind.UNKNOWN)


_ROWS = (
    (RefusalKind.SCOPE, _SCOPE),
    (RefusalKind.API_DISABLED, _API_OFF),
    (RefusalKind.BILLING, _BILLING),
    (RefusalKind.STOCKOUT, _STOCK),
    (RefusalKind.RESERVATION, _RESERVATION),
    (RefusalKind.RATE_LIMITED, _RATE),
    (RefusalKind.QUOTA, _QUOTA),
    (RefusalKind.NOT_FOUND, _NOT_FOUND_OR_DENIED),
    (RefusalKind.PERMISSION, NAMED_PERMISSION),
    (RefusalKind.PERMISSION, _ACT_AS),
    (RefusalKind.PERMISSION, _PERMISSION),
    (RefusalKind.NOT_FOUND, _MISSING_THING),
    (RefusalKind.REQUEST, _WRONG),
)
