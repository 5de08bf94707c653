"""Where each golden file comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.golden import benchmarks, cli_help, metrics, openapi, pages, schema, settings, slack

SOURCES: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "openapi": openapi.texts,
    "help": cli_help.texts,
    "settings": settings.texts,
    "pages": pages.texts,
    "slack": slack.texts,
    "metrics": metrics.texts,
    "schema": schema.texts,
    "benchmarks": benchmarks.texts,
}
