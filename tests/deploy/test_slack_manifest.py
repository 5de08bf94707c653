"""The manifest makes the very app that Costguard needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costguard.api.slack import router
from costguard.slack.client import SCOPES

MANIFEST = Path(__file__).resolve().parents[2] / "deploy" / "slack-manifest.yaml"


@pytest.fixture
def manifest() -> Any:
    yaml = pytest.importorskip("yaml", reason="no YAML reader is installed")
    return yaml.safe_load(MANIFEST.read_text())


def test_it_asks_for_the_scopes_that_are_needed(manifest: Any) -> None:
    """Neither more nor fewer scopes than the client needs are asked for, and none of a person."""
    assert list(manifest["oauth_config"]["scopes"]) == ["bot"]
    scopes = manifest["oauth_config"]["scopes"]["bot"]
    assert sorted(scopes) == sorted(SCOPES)


def test_presses_and_commands_come_to_routes_that_exist(manifest: Any) -> None:
    """Both addresses end in paths that Costguard serves."""
    served = {getattr(route, "path", "") for route in router.routes}
    (command,) = manifest["features"]["slash_commands"]
    assert command["command"] == "/gpu"
    for url in (command["url"], manifest["settings"]["interactivity"]["request_url"]):
        host, _, path = url.removeprefix("https://").partition("/")
        assert host == "costguard.example.com"
        assert f"/{path}" in served


def test_owners_can_be_written_to(manifest: Any) -> None:
    """Slack refuses direct messages of an app without the messages tab."""
    assert manifest["features"]["app_home"]["messages_tab_enabled"] is True
    assert manifest["settings"]["interactivity"]["is_enabled"] is True


def test_the_way_without_requests_is_told() -> None:
    """The differences for Socket Mode are marked: as many lines as the explanation says."""
    text = MANIFEST.read_text()
    assert text.count("# requests only") == 2
    assert "socket_mode_enabled: false" in text
