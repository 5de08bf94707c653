"""Secrets, from environment variables, from files that variables of the same name and FILE name, or from systemd."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costguard.settings import webhook_secrets
from costguard.settings.problems import Problem

CONFIG = "COSTGUARD_CONFIG"
TOKEN = "COSTGUARD_TOKEN"  # noqa: S105 -- the variable's name, not its value; so are those below
DATABASE = "COSTGUARD_DATABASE_URL"
SLACK_TOKEN = "COSTGUARD_SLACK_TOKEN"  # noqa: S105
SLACK_SIGNING_SECRET = "COSTGUARD_SLACK_SIGNING_SECRET"  # noqa: S105
SLACK_APP_TOKEN = "COSTGUARD_SLACK_APP_TOKEN"  # noqa: S105
OIDC_CLIENT_SECRET = "COSTGUARD_OIDC_CLIENT_SECRET"  # noqa: S105
VARIABLES = (
    CONFIG,
    TOKEN,
    DATABASE,
    SLACK_TOKEN,
    SLACK_SIGNING_SECRET,
    SLACK_APP_TOKEN,
    OIDC_CLIENT_SECRET,
    webhook_secrets.PATTERN,
)
OF_SLACK = {"token": SLACK_TOKEN, "signing_secret": SLACK_SIGNING_SECRET, "app_token": SLACK_APP_TOKEN}
FILE = "_FILE"
_CREDENTIALS = "CREDENTIALS_DIRECTORY"  # systemd sets it where a unit has LoadCredential=

Raw = dict[str, Any]


def read_secrets(raw: Raw, environ: Mapping[str, str]) -> tuple[dict[str, str], list[Problem]]:
    """What the environment gives, by variable, and what is wrong with it.

    What belongs to a section is not looked at without the section.
    """
    secrets, problems = {}, []
    of_webhooks = webhook_secrets.variables(raw.get("webhooks")).values()
    of_slack = OF_SLACK.values() if "slack" in raw else ()
    of_sign_in = (OIDC_CLIENT_SECRET,) if "sign_in" in raw else ()
    for variable in (TOKEN, DATABASE, *of_slack, *of_sign_in, *of_webhooks):
        given, file = environ.get(variable, ""), environ.get(variable + FILE, "")
        if not given and not file:
            file = _credential(variable, environ)
        if given and file:
            problems.append(Problem((), f"{variable} is set as well; expected one of the two", variable + FILE))
        elif file:
            try:
                given = _read(Path(file))
            except ValueError as wrong:
                problems.append(Problem((), str(wrong), variable + FILE))
        if given:
            secrets[variable] = given
    return secrets, problems


def with_secrets(raw: Raw, secrets: Mapping[str, str]) -> Raw:
    """The settings with the secrets in their places, and with none that the file holds."""
    raw = {key: value for key, value in raw.items() if key != "token"}
    if TOKEN in secrets:
        raw["token"] = secrets[TOKEN]
    if DATABASE in secrets and isinstance(raw.get("database", {}), dict):
        raw["database"] = {**raw.get("database", {}), "url": secrets[DATABASE]}
    if isinstance(slack := raw.get("slack"), dict):
        given = {key: secrets[variable] for key, variable in OF_SLACK.items() if variable in secrets}
        raw["slack"] = {**{key: value for key, value in slack.items() if key not in OF_SLACK}, **given}
    if isinstance(webhooks := raw.get("webhooks"), dict):
        given = {name: secrets.get(variable, "") for name, variable in webhook_secrets.variables(webhooks).items()}
        raw["webhooks"] = {
            name: {**section, "secret": given.get(name, "")} if isinstance(section, dict) else section
            for name, section in webhooks.items()
        }
    if isinstance(sign_in := raw.get("sign_in"), dict) and OIDC_CLIENT_SECRET in secrets:
        raw["sign_in"] = {**sign_in, "oidc_client_secret": secrets[OIDC_CLIENT_SECRET]}
    return raw


def source(variable: str, environ: Mapping[str, str]) -> str:
    """The variable that was set: this one, or the one that names a file."""
    return variable if environ.get(variable) else variable + FILE


def _credential(variable: str, environ: Mapping[str, str]) -> str:
    """The path of the systemd credential with the variable's name; "" where there is none."""
    folder = environ.get(_CREDENTIALS, "")
    path = Path(folder) / variable
    return str(path) if folder and path.is_file() else ""


def _read(file: Path) -> str:
    try:
        text = file.read_text("utf-8").strip()
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not text; expected the secret alone in it") from None
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from None
    if not text:
        raise ValueError(f"{file} is empty; expected the secret in it")
    return text
