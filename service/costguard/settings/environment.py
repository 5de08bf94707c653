"""Secrets: from environment variables, from files that variables with _FILE at the end name, or from systemd."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from costguard.settings.problems import Raw, SettingProblem
from costguard.settings.values import is_name

CONFIG = "COSTGUARD_CONFIG"
TOKEN = "COSTGUARD_TOKEN"  # noqa: S105 -- the variable's name, not its value; so are those below
DATABASE = "COSTGUARD_DATABASE_URL"
SLACK_TOKEN = "COSTGUARD_SLACK_TOKEN"  # noqa: S105
SLACK_SIGNING_SECRET = "COSTGUARD_SLACK_SIGNING_SECRET"  # noqa: S105
SLACK_APP_TOKEN = "COSTGUARD_SLACK_APP_TOKEN"  # noqa: S105
OIDC_CLIENT_SECRET = "COSTGUARD_OIDC_CLIENT_SECRET"  # noqa: S105
MLFLOW_TOKEN = "COSTGUARD_MLFLOW_TOKEN"  # noqa: S105
WANDB_API_KEY = "COSTGUARD_WANDB_API_KEY"
WEBHOOK_SECRET = "COSTGUARD_WEBHOOK_NAME_SECRET"  # noqa: S105 -- NAME stands for the webhook's
VARIABLES = (
    CONFIG,
    TOKEN,
    DATABASE,
    SLACK_TOKEN,
    SLACK_SIGNING_SECRET,
    SLACK_APP_TOKEN,
    OIDC_CLIENT_SECRET,
    MLFLOW_TOKEN,
    WANDB_API_KEY,
    WEBHOOK_SECRET,
)
OF_SLACK = {"token": SLACK_TOKEN, "signing_secret": SLACK_SIGNING_SECRET, "app_token": SLACK_APP_TOKEN}
OF_TRACKERS = {"mlflow": ("token", MLFLOW_TOKEN), "wandb": ("api_key", WANDB_API_KEY)}
FILE = "_FILE"
_OF_WEBHOOK = re.compile(WEBHOOK_SECRET.replace("NAME", "[A-Z0-9_]+"))
_CREDENTIALS = "CREDENTIALS_DIRECTORY"  # systemd sets it where a unit has LoadCredential=


def read_secrets(raw: Raw, environ: Mapping[str, str]) -> tuple[dict[str, str], list[SettingProblem]]:
    """The secrets by variable, and the mistakes in them. A section's secrets are read only where the section is."""
    of_webhooks = webhook_variables(raw.get("webhooks")).values()
    of_slack = OF_SLACK.values() if "slack" in raw else ()
    of_sign_in = (OIDC_CLIENT_SECRET,) if "sign_in" in raw else ()
    named = raw.get("trackers")
    of_trackers = [variable for name, (_, variable) in OF_TRACKERS.items() if isinstance(named, dict) and name in named]
    return _read_each((TOKEN, DATABASE, *of_slack, *of_sign_in, *of_trackers, *of_webhooks), environ)


def read_database(environ: Mapping[str, str]) -> tuple[dict[str, str], list[SettingProblem]]:
    """The database's address alone, where the environment gives it."""
    return _read_each((DATABASE,), environ)


def _read_each(variables: Iterable[str], environ: Mapping[str, str]) -> tuple[dict[str, str], list[SettingProblem]]:
    secrets, problems = {}, []
    for variable in variables:
        given, file = environ.get(variable, ""), environ.get(variable + FILE, "")
        if not given and not file:
            file = _credential(variable, environ)
        if given and file:
            problems.append(SettingProblem((), f"{variable} is set as well; expected one of the two", variable + FILE))
        elif file:
            try:
                given = _read(Path(file))
            except ValueError as wrong:
                problems.append(SettingProblem((), str(wrong), variable + FILE))
        if given:
            secrets[variable] = given
    return secrets, problems


def with_secrets(raw: Raw, secrets: Mapping[str, str]) -> Raw:
    """The settings with the secrets in their places, and without any that the file holds."""
    raw = {key: value for key, value in raw.items() if key != "token"}
    if TOKEN in secrets:
        raw["token"] = secrets[TOKEN]
    if DATABASE in secrets and isinstance(raw.get("database", {}), dict):
        raw["database"] = {**raw.get("database", {}), "url": secrets[DATABASE]}
    if isinstance(slack := raw.get("slack"), dict):
        given = {key: secrets[variable] for key, variable in OF_SLACK.items() if variable in secrets}
        raw["slack"] = {**{key: value for key, value in slack.items() if key not in OF_SLACK}, **given}
    if isinstance(webhooks := raw.get("webhooks"), dict):
        given = {name: secrets.get(variable, "") for name, variable in webhook_variables(webhooks).items()}
        raw["webhooks"] = {
            name: {**section, "secret": given.get(name, "")} if isinstance(section, dict) else section
            for name, section in webhooks.items()
        }
    if isinstance(trackers := raw.get("trackers"), dict):
        raw["trackers"] = {name: _with_secret_of(name, section, secrets) for name, section in trackers.items()}
    if isinstance(sign_in := raw.get("sign_in"), dict) and OIDC_CLIENT_SECRET in secrets:
        raw["sign_in"] = {**sign_in, "oidc_client_secret": secrets[OIDC_CLIENT_SECRET]}
    return raw


def of_serving(given: Mapping[str, Any]) -> Raw:
    """The settings without the secrets of the watching process, which alone delivers webhooks, logs to trackers and
    opens Slack's socket. The serving process keeps Slack's token where signed requests come to it.
    """
    kept = dict(given)
    if isinstance(slack := given.get("slack"), dict):
        unused = {"app_token"} if slack.get("signing_secret") else {"app_token", "token"}
        kept["slack"] = {key: value for key, value in slack.items() if key not in unused}
    for part in ("webhooks", "trackers"):
        if isinstance(sections := given.get(part), dict):
            keys = {name: OF_TRACKERS[name][0] if part == "trackers" else "secret" for name in sections}
            kept[part] = {name: _without(section, keys[name]) for name, section in sections.items()}
    return kept


def is_secret(variable: str) -> bool:
    """Says whether an environment variable holds a secret of Costguard's, or says where one is."""
    name = variable.removesuffix(FILE)
    return variable == _CREDENTIALS or (name in VARIABLES and name != CONFIG) or bool(_OF_WEBHOOK.fullmatch(name))


def _without(section: object, key: str) -> object:
    return {name: value for name, value in section.items() if name != key} if isinstance(section, dict) else section


def _with_secret_of(tracker: str, section: object, secrets: Mapping[str, str]) -> object:
    if tracker not in OF_TRACKERS or not isinstance(section, dict):
        return section
    key, variable = OF_TRACKERS[tracker]
    given = {key: secrets[variable]} if variable in secrets else {}
    return {**{name: value for name, value in section.items() if name != key}, **given}


def webhook_variables(webhooks: object) -> dict[str, str]:
    """The variable of each webhook's secret, such as COSTGUARD_WEBHOOK_PAGER_DUTY_SECRET for `pager-duty`.

    Of the raw table [webhooks]; names that are wrong have none.
    """
    names = [name for name in webhooks if is_name(name)] if isinstance(webhooks, dict) else []
    return {name: WEBHOOK_SECRET.replace("NAME", name.upper().replace("-", "_")) for name in names}


def source(variable: str, environ: Mapping[str, str]) -> str:
    """The variable that is set: this one, or the one that names a file."""
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


def file_warnings(where: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Files with settings or secrets that other users can change or read. Windows has no such modes."""
    if os.name != "posix":
        return
    mode = _mode(where)
    if mode & stat.S_IWOTH:
        repair = f"chmod o-w {shlex.quote(str(where))}"
        yield f"Any user here can change {where} (mode {mode:04o}), and make themselves an admin: run `{repair}`."
    for variable in sorted(environ):
        if not (variable.startswith("COSTGUARD_") and variable.endswith(FILE)):
            continue
        file = Path(environ[variable])
        if (mode := _mode(file)) & (stat.S_IRWXG | stat.S_IRWXO):
            repair = f"chmod 600 {shlex.quote(str(file))}"
            yield f"{variable}: other users can read the secret in {file} (mode {mode:04o}): run `{repair}`."


def _mode(file: Path) -> int:
    """0 where there is no file, which another check reports."""
    try:
        return stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return 0
