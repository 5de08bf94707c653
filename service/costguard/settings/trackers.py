"""[trackers]: experiment trackers that the cost of jobs is logged to, and where their secrets come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from costguard.model.delivery.tracker import Tracker
from costguard.settings.environment import OF_TRACKERS, WANDB_API_KEY
from costguard.settings.problems import Raw, SettingProblem, table
from costguard.settings.values import Section, is_this_computer, matching


def _url(value: str) -> str:
    """Credentials go over TLS, or stay on this computer."""
    try:
        parts = urlsplit(value)
        host, is_usable = parts.hostname or "", parts.port != 0
    except ValueError:
        host, is_usable = "", False
    is_safe = bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_this_computer(host)))
    if not is_usable or not is_safe or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError("an address such as https://mlflow.example.com; with http:// only on this computer")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("an address without a user, ? and #: the secret comes from the environment")
    return value.rstrip("/")


TrackerUrl = Annotated[str, AfterValidator(_url)]
TrackerUser = Annotated[str, AfterValidator(matching(r"[^\s:]{1,200}", "a name of a user without spaces and colons"))]


class MlflowSection(Section):
    """An MLflow server. With a user the secret is the password, else a token."""

    url: TrackerUrl
    user: TrackerUser | None = None
    token: SecretStr = Field(default=SecretStr(""), exclude=True)


class WandbSection(Section):
    """W&B's own service, or a server of one's own."""

    url: TrackerUrl = "https://api.wandb.ai"
    api_key: SecretStr = Field(default=SecretStr(""), exclude=True)  # never empty: see `check`


class TrackersSection(Section):
    """The experiment trackers. Without a tracker no job can name a run."""

    mlflow: MlflowSection | None = None
    wandb: WandbSection | None = None

    @property
    def names(self) -> frozenset[Tracker]:
        sections = {Tracker.MLFLOW: self.mlflow, Tracker.WANDB: self.wandb}
        return frozenset(tracker for tracker, section in sections.items() if section is not None)


def check(raw: Raw, secrets: Mapping[str, str]) -> Iterator[SettingProblem]:
    sections = table(raw, "trackers")
    for name, (key, variable) in OF_TRACKERS.items():
        if key in table(sections, name):
            yield SettingProblem(("trackers", name, key), f"no such key; it comes from the environment: {variable}")
    if "wandb" in sections and WANDB_API_KEY not in secrets:
        yield SettingProblem(("trackers", "wandb"), f"needs an API key of W&B, in {WANDB_API_KEY}")
    if table(sections, "mlflow").get("user") and OF_TRACKERS["mlflow"][1] not in secrets:
        variable = OF_TRACKERS["mlflow"][1]
        yield SettingProblem(("trackers", "mlflow", "user"), f"needs the password of the user, in {variable}")
