"""The owner of a job, else its team's settings, decides about profiles."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
from tests.jobs.world import World, world

from costguard.model.vm_tool import PY_SPY, PinnedTool

TOOL = PinnedTool("/opt/py-spy", "0" * 64, "linux-x86_64")


def _settings(w: World, *, team: bool, own: bool | None) -> dict[str, object]:
    w.submit("j1", profile=own)
    w.until_up("cg-j1-1")
    maker = replace(w.maker(), profiles=team, tools={PY_SPY: TOOL})
    request = maker.request(w.job("j1"), w.attempts("j1")[-1])
    return dict(ast.literal_eval(request.metadata["costguard-attempt"]))


@pytest.mark.parametrize(
    ("team", "own", "is_taken"),
    [
        (False, None, False),
        (True, None, True),
        (False, True, True),
        (True, False, False),
    ],
    ids=["neither", "the team", "the owner", "the owner does not"],
)
def test_owner_decides_and_else_the_team(sqlite_url: str, team: bool, own: bool | None, is_taken: bool) -> None:
    """py-spy comes to the VM with the permission, and not without it."""
    with world(sqlite_url) as w:
        settings = _settings(w, team=team, own=own)

    assert settings.get("profile", False) is is_taken
    assert ("py_spy_sha256" in settings) is is_taken
