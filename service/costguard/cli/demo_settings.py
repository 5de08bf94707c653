"""The settings of the demo: short spans, so that a story is told while one looks on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costguard.errors import SettingsError

if TYPE_CHECKING:
    from costguard.settings import Settings

ADMIN = "chiara@example.com"  # one of the simulated workspace's people
_EVERY = timedelta(seconds=10)  # the shortest interval between passes that the settings allow
_DIGEST_AFTER = timedelta(minutes=100)
# The forgotten T4 is stopped when its owner has not answered twice; other VMs are only asked about.
_PRESETS = {
    "t4": {"remind_every": "20m", "when_unanswered": "stop", "stop_after": 2, "grace": "10m"},
    "a100": {"remind_every": "30m"},
    "multi-gpu": {"remind_every": "30m"},
    "other": {"remind_every": "30m"},
}


def demo_settings(
    listen: str,
    cloud: str,
    folder: Path,
    projects: list[str],
    now: datetime,
    environ: Mapping[str, str],
    speed_of_jobs: float | None = None,
) -> Settings:
    """`now` is the fleet's time; without a speed no jobs are taken in.

    Raises SettingsError in words of options and variables: there is no file to mend.
    """
    from costguard.settings import validate

    wanted = {
        "watch": {"projects": projects, "every": f"{_EVERY.seconds}s"},
        "idle": {"every": f"{_EVERY.seconds}s"},
        "database": {"url": f"sqlite:///{folder / 'costguard.db'}"},
        "server": {"listen": listen},
        "compute": {"endpoint": cloud},
        "prices": {"endpoint": cloud},
        "owners": {"domain": "example.com"},
        "slack": {"channel": "#gpu-costs", "endpoint": f"{cloud}/slack/api/", **_dashboard(listen)},
        "reminders": {
            "quiet_hours": "never",
            "quiet_days": [],
            "contact": ADMIN,
            "daily_digest": f"{now + _DIGEST_AFTER:%H:%M}",
        },
        "enforcement": {"shadow": False},
        "log": {"level": "error"},  # what happens is shown, not logged
        "access": {"admins": [ADMIN], "operators": ["dana@example.com"], "viewers": ["@example.com"]},
        "presets": _PRESETS,
        "budgets": _budgets(projects),
        **_teams(projects),
        **({} if speed_of_jobs is None else {"jobs": _jobs(guard_url(listen), speed_of_jobs)}),
    }
    place = Path("the demo")
    try:
        return validate(wanted, environ, place)
    except SettingsError as error:
        told = error.message.replace(f"{place}: server.listen:", "--listen:")
        raise SettingsError(told, "Nothing was started. Mend that, then start the demo again.") from None


def guard_url(listen: str) -> str:
    """Where processes of this machine reach a guard that listens there; "" where they do not, or nobody knows yet."""
    host, _, port = listen.rpartition(":")
    bare = ip_address(host.strip("[]"))
    if bare.is_unspecified:
        host = "127.0.0.1" if bare.version == 4 else "[::1]"
    return f"http://{host}:{port}" if port != "0" and (bare.is_unspecified or bare.is_loopback) else ""


def _jobs(url: str, speed: float) -> dict[str, Any]:
    """VMs live in seconds of the machine's: they are waited for as much longer as the fleet's clock is faster.

    After its notice a VM has five of them.
    """

    def span(seconds: int, least: int, most: int) -> str:
        return f"{max(least, min(most, round(seconds * speed)))}s"

    return {
        "guard_url": url,
        "heartbeat": "3s",
        "silence": span(240, 600, 21_600),
        "boot": span(120, 1800, 21_600),
        "dying": span(8, 40, 600),
        "cancel_grace": span(10, 60, 3600),
        "stalled": span(120, 7200, 604_800),
    }


def _dashboard(listen: str) -> dict[str, str]:
    """Where messages link to; a port that the system is yet to choose cannot be told."""
    return {} if listen.endswith(":0") else {"url": f"http://{listen}"}


def _budgets(projects: list[str]) -> dict[str, Any]:
    """One that the four A100s overspend while one looks on, and one that is on course."""
    everything = {"everything": {"limit": 20_000, "period": "month"}}
    if "acme-training" not in projects:
        return everything
    return {"training-today": {"scope": {"project": "acme-training"}, "limit": 400, "period": "day"}, **everything}


def _teams(projects: list[str]) -> dict[str, Any]:
    if "acme-research" not in projects:
        return {}
    team = {
        "members": ["ben@example.com", "cleo@example.com"],
        "operators": ["ben@example.com"],
        "projects": ["acme-research"],
        "channel": "#ml-team",
    }
    return {"teams": {"research": team}}
