"""Gives rclone its credentials: in variables of its process, never in its arguments or a configuration file.

AWS: the job's own AWS_* variables, or a role that the VM assumes with its Google identity. rclone's `env_auth` uses the
AWS SDK's chain, which knows AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE (rclone.org/s3/#authentication). AWS trusts
Google's tokens without a provider of its own; the role's trust policy names the service account, the token's `azp`
(`accounts.google.com:aud`), and the audience (`accounts.google.com:oaud`): docs.aws.amazon.com, "Available keys for AWS
OIDC federation". Cloud Storage: the VM's service account, through the metadata server.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping

from costguard_vm.agent.calls import Metadata
from costguard_vm.agent.failures import TransferFailed, Trouble
from costguard_vm.agent.files import write

AUDIENCE = "sts.amazonaws.com"
FRESH_S = 600  # a token is valid for an hour; the metadata server answers from its cache
# Of the command's variables only these reach the tool: no PATH, no LD_PRELOAD.
FAMILIES = ("AWS_", "GOOGLE_", "GCE_METADATA_", "RCLONE_S3_", "RCLONE_GCS_", "SSL_CERT_")
ALONE = ("STORAGE_EMULATOR_HOST", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
# GOGC stays at Go's own 100: with 40, a listing of one file took 66 ms of CPU in place of 48, and the largest
# transfers 1 to 3 MiB less of 74 (rclone 1.75, 30 November 2026).
MEMORY = {"GOMEMLIMIT": "44MiB", "GOMAXPROCS": "4"}


class AwsIdentity:
    """The VM's Google identity as a file that the AWS SDK reads again whenever its own credentials expire."""

    def __init__(self, role: str, folder: str, metadata: Metadata) -> None:
        self.role, self.path = role, os.path.join(folder, "aws-identity")
        self._metadata, self._lock = metadata, threading.Lock()
        self._latest = float("-inf")

    def refresh(self) -> None:
        """Writes the token again when it is ten minutes old. Raises TransferFailed."""
        with self._lock:
            if time.monotonic() - self._latest < FRESH_S:
                return
            query = f"instance/service-accounts/default/identity?audience={AUDIENCE}&format=full"
            try:
                token, _ = self._metadata.get(query)
            except Trouble as trouble:
                raise TransferFailed(f"no identity token for AWS: {trouble}", not trouble.may_pass) from None
            if token.count(".") != 2:
                raise TransferFailed(
                    "the metadata server gave no identity token: does the VM have a service account?", True
                )
            write(self.path, token.strip().encode())
            self._latest = time.monotonic()

    def variables(self) -> dict[str, str]:
        return {
            "AWS_ROLE_ARN": self.role,
            "AWS_WEB_IDENTITY_TOKEN_FILE": self.path,
            "AWS_ROLE_SESSION_NAME": "costguard",
        }


def variables(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The variables of rclone's process: the agent's, and of the command's those about credentials and places."""
    kept = {name: value for name, value in own.items() if not name.startswith(("COSTGUARD_", "RCLONE_"))}
    chosen = {name: value for name, value in given.items() if name.startswith(FAMILIES) or name.upper() in ALONE}
    return {"HOME": os.path.expanduser("~"), **kept, **chosen}


def remotes(chosen: Mapping[str, str], identity: AwsIdentity | None, metadata: Metadata) -> dict[str, str]:
    """rclone's remotes `s3:` and `gs:` as variables. What the job sets with RCLONE_S3_... or RCLONE_GCS_... stays."""
    s3 = {"TYPE": "s3", "ENV_AUTH": "true", "NO_CHECK_BUCKET": "true", "CHUNK_SIZE": "5Mi", "UPLOAD_CONCURRENCY": "2"}
    endpoint = chosen.get("AWS_ENDPOINT_URL_S3") or chosen.get("AWS_ENDPOINT_URL") or ""
    s3["PROVIDER"] = "Other" if endpoint and "amazonaws.com" not in endpoint else "AWS"
    region = chosen.get("AWS_REGION") or chosen.get("AWS_DEFAULT_REGION") or ""
    gs = {"TYPE": "google cloud storage", "BUCKET_POLICY_ONLY": "true", "NO_CHECK_BUCKET": "true"}
    emulator = chosen.get("STORAGE_EMULATOR_HOST", "")
    if emulator:
        base = emulator if "://" in emulator else f"http://{emulator}"
        gs.update(ANONYMOUS="true", ENDPOINT=f"{base.rstrip('/')}/storage/v1/")
    else:
        gs["ENV_AUTH"] = "true"
    s3.update({name: value for name, value in (("ENDPOINT", endpoint), ("REGION", region)) if value})
    kept = {f"RCLONE_CONFIG_S3_{name}": value for name, value in s3.items() if f"RCLONE_S3_{name}" not in chosen}
    kept.update({f"RCLONE_CONFIG_GS_{name}": value for name, value in gs.items() if f"RCLONE_GCS_{name}" not in chosen})
    # The address of EC2's metadata server is Google's on a Google VM.
    kept.update(MEMORY, RCLONE_CONFIG="", AWS_EC2_METADATA_DISABLED="true", AWS_REGION=region or "us-east-1")
    if metadata.is_moved:
        kept["GCE_METADATA_HOST"] = metadata.host
    return {**kept, **(identity.variables() if identity is not None else {})}
