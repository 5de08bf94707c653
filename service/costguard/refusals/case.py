"""The parts that the sentence about an error is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from costguard.refusals.explanation import Lacks

Words = tuple[str, str]  # the sentence, and the step that mends it; "" where none is known

_NAMES: Mapping[str, str] = {
    "compute": "Compute Engine", "storage": "Cloud Storage", "container": "Kubernetes Engine", "tpu": "Cloud TPU",
    "bigquery": "BigQuery", "monitoring": "Cloud Monitoring", "iam": "IAM", "iamcredentials": "IAM",
    "secretmanager": "Secret Manager", "serviceusage": "Service Usage", "cloudbilling": "Cloud Billing",
    "cloudresourcemanager": "Resource Manager", "oauth2": "Google's sign-in", "slack": "Slack",
    "aiplatform": "Vertex AI", "notebooks": "Workbench", "logging": "Cloud Logging", "pubsub": "Pub/Sub",
    "workstations": "Cloud Workstations", "cloudasset": "Cloud Asset", "cloudquotas": "Cloud Quotas",
    "dataproc": "Dataproc", "run": "Cloud Run", "cloudbuild": "Cloud Build", "orgpolicy": "Organization Policy",
    "unknown": "Google",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """An answer and what was found in it. `text` is all of it, `said` the service's own words in one line."""

    service: str
    missing: Lacks
    text: str
    said: str
    account: str = ""  # that asked, where the caller of the reader knows it

    @property
    def name(self) -> str:
        return _NAMES.get(self.service, self.service)

    @property
    def project(self) -> str:
        """The project, or PROJECT, as a command has it."""
        return self.missing.project or "PROJECT"

    @property
    def in_project(self) -> str:
        return f" in project {self.missing.project}" if self.missing.project else ""

    @property
    def sentence(self) -> str:
        """The service's own words as a sentence."""
        return self.said if self.said.endswith((".", "!", "?", "…")) else f"{self.said}."

    def has(self, pattern: str) -> bool:
        return re.search(pattern, self.text, re.IGNORECASE) is not None
