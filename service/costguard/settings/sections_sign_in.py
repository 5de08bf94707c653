"""The section about how people sign in."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from costguard.settings import values, values_sign_in
from costguard.settings.fields import Duration, Section, between


class SignIn(Section):
    """Each way in is there when its keys are. The client's secret comes from the environment, never from the file."""

    url: Annotated[str, AfterValidator(values_sign_in.origin)] | None = None
    session: Annotated[Duration, between(timedelta(minutes=5), timedelta(days=30))] = timedelta(hours=12)
    iap_audience: Annotated[str, AfterValidator(values_sign_in.iap_audience)] | None = None
    oidc_issuer: Annotated[str, AfterValidator(values_sign_in.issuer)] | None = None
    oidc_client_id: Annotated[str, AfterValidator(values_sign_in.client_id)] | None = None
    oidc_domain: Annotated[str, AfterValidator(values.domain)] | None = None
    oidc_client_secret: SecretStr = Field(default=SecretStr(""), exclude=True)  # asked for by `references`

    @property
    def is_open_to_others(self) -> bool:
        """Whether people can sign in who cannot reach the server's own machine."""
        return self.iap_audience is not None or self.oidc_issuer is not None
