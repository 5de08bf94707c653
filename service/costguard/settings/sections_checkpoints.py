"""Where object stores are, if not at Amazon and Google. Keys come from the environment, as for all tools."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from costguard.settings import values
from costguard.settings.fields import Endpoint, Section


class Checkpoints(Section):
    s3_endpoint: Endpoint | None = None  # None: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, else Amazon's
    s3_region: Annotated[str, AfterValidator(values.region)] | None = None  # None: AWS_REGION
    gcs_endpoint: Endpoint | None = None
