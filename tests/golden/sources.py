"""The source of each golden file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.golden import benchmarks, cli_help, client_api, events, metrics, openapi, pages, schema, settings, slack
from tests.golden.reference import api as of_api
from tests.golden.reference import commands as of_commands
from tests.golden.reference import metrics as of_metrics
from tests.golden.reference import settings as of_settings


def _reference() -> Mapping[str, str]:
    """The pages of service/docs/reference."""
    parts = {"settings": of_settings, "commands": of_commands, "api": of_api, "metrics": of_metrics}
    return {f"reference/{name}.md": part.text() for name, part in parts.items()}


SOURCES: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "openapi": openapi.texts,
    "api": client_api.texts,  # after the document that it is generated from
    "help": cli_help.texts,
    "settings": settings.texts,
    "pages": pages.texts,
    "slack": slack.texts,
    "events": events.texts,
    "metrics": metrics.texts,
    "schema": schema.texts,
    "reference": _reference,
    "benchmarks": benchmarks.texts,
}
