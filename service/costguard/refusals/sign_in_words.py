"""Words about credentials that Google's sign-in does not take, each with its own remedy."""

from __future__ import annotations

from collections.abc import Mapping

from costguard.refusals.case import Case, Words

_LOGIN = "un `gcloud auth application-default login`"
_DAEMON = "a daemon needs a service account, which is never asked to sign in again"
_FILE = "point GOOGLE_APPLICATION_CREDENTIALS at a valid credentials file"

# The first pattern that fits the answer counts.
_CREDENTIALS: Mapping[str, Words] = {
    r"invalid_rapt|rapt_required|reauth": (
        "The organisation's session length has ended: Google asks the person behind these credentials to sign in "
        "again.",
        f"R{_LOGIN}; {_DAEMON}.",
    ),
    r"short-lived token|reasonable timeframe|clock": (
        "Google's sign-in refused the service account's key, because this computer's clock is wrong.",
        "Synchronise the clock with NTP: `timedatectl set-ntp true`.",
    ),
    r"Invalid JWT Signature|account not found|Invalid signature": (
        "Google's sign-in refused the service account's key: it was deleted or replaced, or is another account's.",
        "Look which keys are valid (`gcloud iam service-accounts keys list --iam-account=ACCOUNT`) and give a "
        "valid one, or, better, run on a VM that has the account, without a key.",
    ),
    r"SERVICE_ACCOUNT_(?:DISABLED|DELETED)|ACCOUNT_STATE_INVALID|account .{0,80}(?:is|been) (?:deleted|disabled)": (
        "The service account behind these credentials is disabled or deleted.",
        "Run `gcloud iam service-accounts enable ACCOUNT`, or use another account.",
    ),
    r"expired or revoked|\brevoked\b|ACCESS_TOKEN_EXPIRED|token (?:has )?expired": (
        "The token was revoked or has expired.",
        f"R{_LOGIN}; {_DAEMON}.",
    ),
    r"invalid_client|deleted_client": (
        "Google's sign-in does not know the OAuth client, or its secret is wrong.",
        f"Set the client's present id and secret, or r{_LOGIN}.",
    ),
    r"unauthorized_client": (
        "This OAuth client or service account may not ask for a token in this way.",
        "Check the account and its scopes in the domain-wide delegation, or use an account that needs none.",
    ),
    r"API[_ ]key": (
        "Google does not accept the API key for this.",
        "Check the key and its restrictions: `gcloud services api-keys list --project=PROJECT`.",
    ),
    r"default credentials|DefaultCredentials|automatically determine|active account": (
        "No credentials of Google's were found.",
        f"R{_LOGIN}, {_FILE}, or run on a VM that has a service account.",
    ),
    r"metadata\.google\.internal": (
        "This VM's metadata server gave no token: the VM has no service account.",
        "Stop the VM, run `gcloud compute instances set-service-account VM --zone=ZONE --service-account=ACCOUNT "
        "--scopes=cloud-platform`, and start it again.",
    ),
    r"Anonymous (?:caller|user)|CREDENTIALS_MISSING|login required|missing required authentication": (
        "The request carried no credentials.",
        f"R{_LOGIN}, or {_FILE}.",
    ),
    r"invalid_grant": ("The refresh token is no longer valid.", f"Sign in again: r{_LOGIN}; {_DAEMON}."),
}


def credentials(case: Case) -> Words:
    for pattern, words in _CREDENTIALS.items():
        if case.has(pattern):
            return words
    return f"{case.name} refused the credentials: {case.sentence}", f"R{_LOGIN}, or {_FILE}; {_DAEMON}."
