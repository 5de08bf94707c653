"""Checks between keys. They read the raw file, so that they speak up even where other keys are wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from costguard.model.preset import OTHER
from costguard.settings import environment, values, webhook_secrets
from costguard.settings.environment import Raw
from costguard.settings.problems import Problem, meant, unlike

_SHORTEST_TOKEN = 16
_PLACEHOLDER = "my-project"  # in example.toml
_MAKE_TOKEN = "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"  # noqa: S105 -- how to make one
_SLACK_SECRETS = {
    environment.SLACK_TOKEN: re.compile(r"xoxb-[!-~]+"),
    environment.SLACK_SIGNING_SECRET: re.compile(r"[!-~]{16,}"),
    environment.SLACK_APP_TOKEN: re.compile(r"xapp-[!-~]+"),
}
_AT_SLACK = "of the app at https://api.slack.com/apps"
_SLACK_WORDS = {
    environment.SLACK_TOKEN: "the bot token (xoxb-...) that the page OAuth & Permissions "
    f"{_AT_SLACK} shows once it is installed (deploy/slack-manifest.yaml makes the app)",
    environment.SLACK_SIGNING_SECRET: f"the signing secret on the page Basic Information {_AT_SLACK}",
    environment.SLACK_APP_TOKEN: "an app-level token (xapp-...) with the scope connections:write, made on the page "
    f"Basic Information {_AT_SLACK}",
}
_OIDC_NEEDS = {
    "oidc_issuer": "the provider, such as https://accounts.google.com",
    "oidc_client_id": "the id that the provider gave to this server",
    "url": "where people reach this server; the provider sends them back to URL/sign-in/oidc/callback",
}


def across(raw: Raw, secrets: Mapping[str, str], shipped: tuple[str, ...]) -> list[Problem]:
    return [
        *_token(raw, secrets.get(environment.TOKEN, "")),
        *_database(raw),
        *_other(raw),
        *_slack(raw, secrets),
        *_sign_in(raw, secrets),
        *_owner_labels(raw),
        *_unwarned(raw),
        *_projects(raw),
        *_placeholders(raw),
        *_budgets(raw, shipped),
        *_webhooks(raw, secrets),
    ]


def _token(raw: Raw, token: str) -> list[Problem]:
    problems = []
    if "token" in raw:
        problems.append(Problem(("token",), "no such key; the token comes from the environment: COSTGUARD_TOKEN"))
    if token and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        text = (
            f"COSTGUARD_TOKEN: expected at least {_SHORTEST_TOKEN} letters, digits and signs, no spaces; {_MAKE_TOKEN}"
        )
        problems.append(Problem(("token",), text))
    listen = _table(raw, "server").get("listen")
    sign_in = _table(raw, "sign_in")
    is_guarded = token or "iap_audience" in sign_in or "oidc_issuer" in sign_in
    if not is_guarded and isinstance(listen, str) and _reaches_out(listen):
        text = (
            f"others could reach {listen}; expected a token in COSTGUARD_TOKEN, or [sign_in] with iap_audience or "
            f"oidc_issuer, or 127.0.0.1. Make a token: {_MAKE_TOKEN}"
        )
        problems.append(Problem(("server", "listen"), text))
    return problems


def _reaches_out(listen: str) -> bool:
    try:
        return not values.is_loopback(values.listen(listen).rpartition(":")[0].strip("[]"))
    except ValueError:
        return False


def _database(raw: Raw) -> list[Problem]:
    url = _table(raw, "database").get("url")
    if isinstance(url, str) and values.has_password(url):
        text = "holds a password; expected the whole address in the environment: COSTGUARD_DATABASE_URL"
        return [Problem(("database", "url"), text)]
    return []


def _other(raw: Raw) -> Iterator[Problem]:
    other = _table(_table(raw, "presets"), OTHER)
    if "match" in other:
        yield Problem(("presets", OTHER, "match"), f"no such key; {OTHER} is what no preset matches")
    if "launch" in other:
        text = f"no such key; {OTHER} is what no preset matches, so nothing is launched as such: name a preset for it"
        yield Problem(("presets", OTHER, "launch"), text)


def _owner_labels(raw: Raw) -> Iterator[Problem]:
    """The owner's label is put on by Costguard; another value would name another owner."""
    label = _table(raw, "owners").get("label", "owner")
    presets = _table(raw, "presets")
    for name in presets:
        if label in _table(_table(_table(presets, name), "launch"), "labels"):
            text = f"no such key; the label {label} names the owner, and is put on each VM by Costguard"
            yield Problem(("presets", name, "launch", "labels", label), text)


def _slack(raw: Raw, secrets: Mapping[str, str]) -> Iterator[Problem]:
    if not isinstance(raw.get("slack"), dict):
        return
    slack = _table(raw, "slack")
    for key, variable in environment.OF_SLACK.items():
        if key in slack:
            yield Problem(("slack", key), f"no such key; it comes from the environment: {variable}")
        if (given := secrets.get(variable)) and not _SLACK_SECRETS[variable].fullmatch(given):
            yield Problem((), f"expected {_SLACK_WORDS[variable]}", variable)
    if environment.SLACK_TOKEN not in secrets:
        yield Problem(("slack",), f"needs {_SLACK_WORDS[environment.SLACK_TOKEN]}, in {environment.SLACK_TOKEN}")
    if slack.get("socket_mode") is True and environment.SLACK_APP_TOKEN not in secrets:
        words = f"needs {_SLACK_WORDS[environment.SLACK_APP_TOKEN]}, in {environment.SLACK_APP_TOKEN}"
        yield Problem(("slack", "socket_mode"), words)


def _sign_in(raw: Raw, secrets: Mapping[str, str]) -> Iterator[Problem]:
    sign_in = _table(raw, "sign_in")
    if "oidc_client_secret" in sign_in:
        text = f"no such key; it comes from the environment: {environment.OIDC_CLIENT_SECRET}"
        yield Problem(("sign_in", "oidc_client_secret"), text)
    given = [key for key in ("oidc_issuer", "oidc_client_id", "oidc_domain") if key in sign_in]
    if not given:
        return
    for key, what in _OIDC_NEEDS.items():
        if key not in sign_in:
            yield Problem(("sign_in", given[0]), f"needs {key} as well: {what}")
    if environment.OIDC_CLIENT_SECRET not in secrets:
        text = f"needs the client's secret, which the provider shows, in {environment.OIDC_CLIENT_SECRET}"
        yield Problem(("sign_in", given[0]), text)


def _unwarned(raw: Raw) -> Iterator[Problem]:
    if "slack" in raw:
        return
    presets = _table(raw, "presets")
    for name in presets:
        given = _table(presets, name).get("when_unanswered")
        if given == "stop":
            expected = '"remind": without a section [slack] nobody could be warned before it'
            yield unlike(("presets", name, "when_unanswered"), given, expected)


def _projects(raw: Raw) -> Iterator[Problem]:
    teams = _table(raw, "teams")
    named: dict[tuple[str, ...], object] = {
        ("teams", name, "projects"): _table(teams, name).get("projects") for name in teams
    }
    webhooks = _table(raw, "webhooks")
    named.update({("webhooks", name, "projects"): _table(webhooks, name).get("projects") for name in webhooks})
    named["enforcement", "protect_projects"] = _table(raw, "enforcement").get("protect_projects")
    for path, projects in named.items():
        for index, project in enumerate(projects if isinstance(projects, list) else []):
            yield from _known((*path, index), project, _watched(raw), "a watched project")


def _placeholders(raw: Raw) -> Iterator[Problem]:
    """The example's project belongs to somebody else, or to no one: it is never the one that is meant."""
    for index, project in enumerate(_watched(raw)):
        if project == _PLACEHOLDER:
            expected = "the id of your own project, as `gcloud projects list` shows it; this one is the example's"
            yield unlike(("watch", "projects", index), project, expected)


def _budgets(raw: Raw, shipped: tuple[str, ...]) -> Iterator[Problem]:
    known = {
        "project": ("a watched project", _watched(raw)),
        "preset": ("a preset", [*shipped, *(name for name in _table(raw, "presets") if name not in shipped)]),
        "team": ("a team", list(_table(raw, "teams"))),
    }
    budgets = _table(raw, "budgets")
    for name in budgets:
        scope = _table(_table(budgets, name), "scope")
        for part, (what, names) in known.items():
            yield from _known(("budgets", name, "scope", part), scope.get(part), names, what)


def _webhooks(raw: Raw, secrets: Mapping[str, str]) -> Iterator[Problem]:
    webhooks = _table(raw, "webhooks")
    for name, variable in webhook_secrets.variables(webhooks).items():
        if "secret" in _table(webhooks, name):
            yield Problem(("webhooks", name, "secret"), f"no such key; it comes from the environment: {variable}")
        if variable not in secrets:
            text = f"needs the secret that signs what is sent, in {variable}. Make one: {webhook_secrets.MAKE}"
            yield Problem(("webhooks", name), text)
            continue
        try:
            webhook_secrets.decoded(secrets[variable])
        except ValueError:
            text = f"expected a secret, or two with a space between while one is changed; {webhook_secrets.MAKE}"
            yield Problem((), text, variable)


def _watched(raw: Raw) -> list[str]:
    projects = _table(raw, "watch").get("projects")
    return [project for project in projects if isinstance(project, str)] if isinstance(projects, list) else []


def _known(path: tuple[str | int, ...], given: object, names: list[str], what: str) -> Iterator[Problem]:
    if isinstance(given, str) and given not in names:
        yield unlike(path, given, f"{what}: {', '.join(names) or 'none is named'}{meant(given, names)}")


def _table(raw: Raw, key: str) -> Raw:
    """The table under a key, or an empty one: what is no table is another check's business."""
    found = raw.get(key)
    return found if isinstance(found, dict) else {}
