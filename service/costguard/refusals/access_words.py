"""Words about what may not be done: a disabled API, a permission, a scope, a closed account, a policy, a perimeter."""

from __future__ import annotations

from collections.abc import Mapping

from costguard.model.mending import enabling
from costguard.model.words import list_text
from costguard.refusals.case import Case, Words
from costguard.refusals.roles import granting, role_of


def api_disabled(case: Case) -> Words:
    api = case.missing.api or (f"{case.service}.googleapis.com" if case.service != "unknown" else "")
    return (
        f"{f'The API {api}' if api else 'An API that is needed'} is not enabled{case.in_project}.",
        f"Run `{enabling(api or 'API', case.project)}`, then wait a few minutes.",
    )


def permission(case: Case) -> Words:
    missing = case.missing
    who = missing.principal or case.account or "The account that asked"
    on = f" on {missing.resource}" if missing.resource else case.in_project
    if not missing.permissions:
        return (
            f"{who} may not do this{on}; {case.name} names no permission: {case.sentence}",
            "Look up which permission the call needs, and who has what: "
            f"`gcloud projects get-iam-policy {case.project}`. What was asked for may also not exist.",
        )
    sentence = f"{who} lacks the permission {list_text(missing.permissions)}{on}."
    if case.has(r"or it may not exist"):
        sentence += f" {case.name} answers the same where that does not exist."
    first = missing.permissions[0]
    holds = "" if role_of(first) else f", with a role that holds {first} in the place of ROLE"
    return sentence, f"Run `{granting(missing, case.account)}`{holds}."


def scope(case: Case) -> Words:
    scopes = case.missing.scopes
    return (
        f"The access token lacks a scope that {case.name} asks for{case.in_project}; {list_text(scopes)} has it. "
        "This is not an IAM role.",
        "On a VM of Compute Engine: stop it, run `gcloud compute instances set-service-account VM --zone=ZONE "
        "--scopes=cloud-platform`, and start it again. Elsewhere: run `gcloud auth application-default login "
        f"--scopes={','.join(scopes)}`. A role does not help.",
    )


def billing(case: Case) -> Words:
    whose = f"Project {case.missing.project}" if case.missing.project else "The project that owns this"
    account = case.missing.billing_account or "BILLING_ACCOUNT"
    return (
        f"{whose} has no open billing account, so {case.name} refuses.",
        f"Link one: `gcloud billing projects link {case.project} --billing-account={account}` "
        "(`gcloud billing accounts list` shows which are open), then wait a few minutes.",
    )


_KEYS = "Use an attached service account or Workload Identity Federation in the place of a key."
_CONSTRAINTS: Mapping[str, str] = {
    "compute.vmExternalIpAccess": "Launch without an external address (`external_address = false` in the preset, "
    "`--no-address` with gcloud), and give the network Cloud NAT or Private Google Access.",
    "compute.requireShieldedVm": "Use a Shielded image, and turn Secure Boot on (`--shielded-secure-boot`).",
    "compute.trustedImageProjects": "Use an image of a project that the policy trusts.",
    "gcp.resourceLocations": "Use a zone or region that the policy allows.",
    "compute.requireOsLogin": "Turn OS Login on (metadata `enable-oslogin=TRUE`).",
    "iam.disableServiceAccountKeyCreation": _KEYS,
    "iam.disableServiceAccountKeyUpload": _KEYS,
    "iam.allowedPolicyMemberDomains": "Grant the role to an account of a domain that the policy allows.",
    "gcp.restrictServiceUsage": "Use a service that the policy allows.",
}


def org_policy(case: Case) -> Words:
    names = [name.removeprefix("constraints/") for name in case.missing.constraints]
    steps = dict.fromkeys(_CONSTRAINTS.get(name.replace("iam.managed.", "iam."), "") for name in names)
    if not names and case.has(r"deny polic"):
        point = f"cloudresourcemanager.googleapis.com%2Fprojects%2F{case.project}"
        what = "A deny policy"
        look = f"`gcloud iam policies list --kind=denypolicies --attachment-point={point}` lists them"
    else:
        what = f"The organisation's policy {list_text(case.missing.constraints)}" if names else "An organisation policy"
        first = names[0] if names else "CONSTRAINT"
        look = f"`gcloud org-policies describe {first} --effective --project={case.project}` shows what it allows"
    said = "" if names else f": {case.sentence}"
    return (
        f"{what} forbids this{case.in_project}{said or '.'} This is not a missing role.",
        f"{''.join(f'{step} ' for step in steps if step)}{look}; "
        "only an administrator of the organisation's policies can make an exception.",
    )


def perimeter(case: Case) -> Words:
    identifier = case.missing.identifier
    named = f" (identifier {identifier})" if identifier else ""
    where = f'protoPayload.metadata.vpcServiceControlsUniqueId="{identifier or "IDENTIFIER"}"'
    return (
        f"VPC Service Controls of the organisation keep this request out of {case.name}{case.in_project}{named}. "
        "This is not a missing role.",
        "Ask an administrator of the perimeter to look the identifier up, and to add an ingress or egress rule or an "
        f"access level: `gcloud logging read '{where}' --organization=ORGANIZATION`. No IAM role helps.",
    )
