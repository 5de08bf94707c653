"""The settings of the simulated guard, as its file and its environment would give them."""

from __future__ import annotations

import random
from typing import Any

from tests.simulation.aims import Aim
from tests.simulation.wire import URL

from costguard.settings import Settings
from costguard_sandbox.slack.access import BOT_TOKEN, SIGNING_SECRET

PROJECT = "acme-training"  # of people's VMs and of jobs
WILD = "acme-research"  # where anything happens to any VM
ZONES = ("us-central1-a", "us-central1-c")
CHANNEL = "gpu-costs"
CONTACT = "cleo@example.com"
OPERATOR, ADMIN = "ben@example.com", "dana@example.com"
JOB_ZONES = ("us-central1-a", "us-central1-c", "us-east1-c")
BUCKET = "gs://acme-runs"

_PEOPLE = ("ana", "ben", "chiara", "cleo", "emi")
_LAUNCH = {
    "machine_type": "n1-standard-8",
    "gpu_type": "nvidia-tesla-t4",
    "gpu_count": 1,
    "zones": list(JOB_ZONES),
    "on_demand_fallback": True,
    "max_run": "2d",
    "labels": {"kind": "job"},
}
_STOP = {"when_unanswered": "stop"}
_NEVER_IDLE = {"idle": {"window": "never"}}
_TABLES: dict[str, Any] = {
    "watch": {"projects": [PROJECT, WILD], "parallel": 1},
    "compute": {"endpoint": URL},
    "prices": {"endpoint": URL},
    "owners": {"domain": "example.com"},
    "slack": {
        "channel": f"#{CHANNEL}",
        "endpoint": f"{URL}/slack/api/",
        "token": BOT_TOKEN,
        "signing_secret": SIGNING_SECRET,
    },
    "reminders": {"time_zone": "Europe/Madrid", "quiet_unless_above": 20, "contact": CONTACT},
    "enforcement": {"shadow": False, "protect_names": ["*-prod"]},
    "access": {"viewers": ["@example.com"], "operators": [OPERATOR], "admins": [ADMIN]},
    "jobs": {"guard_url": "https://guard.example.com"},
    "presets": {
        "job": {"limit": "7d", "match": {"labels": {"kind": "job"}}, "launch": _LAUNCH, **_NEVER_IDLE},
        "notebook": {
            "limit": "2d",
            "match": {"labels": {"kind": "notebook"}},
            "idle": {"window": "2h"},
            "remind_every": "6h",
            "stop_after": 2,
            "grace": "2h",
            **_STOP,
        },
        "multi-gpu": {"limit": "12h", "match": {"gpu_count_min": 2}, "remind_every": "3h", **_NEVER_IDLE},
        "a100": {"limit": "1d", "match": {"gpu_types": ["nvidia-tesla-a100"]}, "remind_every": "6h", **_NEVER_IDLE},
        "t4": {
            "limit": "8h",
            "match": {"gpu_types": ["nvidia-tesla-t4"]},
            "remind_every": "4h",
            "stop_after": 3,
            "grace": "1h",
            **_NEVER_IDLE,
            **_STOP,
        },
        "other": {"limit": "3d", "remind_every": "8h", "stop_after": 2, "grace": "4h", **_NEVER_IDLE, **_STOP},
    },
    "budgets": {
        "everything": {"scope": "everything", "period": "month", "limit": 20000},
    },
}


_JOBS = {"preset": "job"}
# What the jobs of a life cost in a day or a week, about, so that they are spent now and then.
_TIGHT: dict[str, Any] = {
    "jobs-of-a-day": {"scope": _JOBS, "period": "day", "limit": 4, "at_limit": "refuse"},
    "jobs-of-ben": {
        "scope": {**_JOBS, "owner": "ben@example.com"},
        "period": "week",
        "limit": 9,
        "at_limit": "stop-spot",
    },
}

SETTINGS = Settings.of(_TABLES)
TIGHT = Settings.of({**_TABLES, "budgets": {**_TABLES["budgets"], **_TIGHT}})
# A rule of the preset of jobs that would stop any VM after hours.
_IMPATIENT = {"limit": "1h", "remind_every": "30m", "stop_after": 1, "grace": "30m", **_STOP}
# Rules that act within hours, at night and at weekends too: stops by rule are many then.
_SOON = {"remind_every": "1h", "stop_after": 2, "grace": "1h", **_STOP}
_OF_PRESETS: dict[str, Any] = {
    "notebook": {"limit": "9h", "idle": {"window": "30m"}, **_SOON},
    "multi-gpu": {"limit": "4h", "remind_every": "2h"},
    "a100": {"limit": "6h", "remind_every": "3h"},
    "t4": {"limit": "2h", **_SOON, "stop_after": 3},
    "other": {"limit": "4h", **_SOON, "grace": "2h"},
}
HASTY_TABLES: dict[str, Any] = {
    **_TABLES,
    "reminders": {**_TABLES["reminders"], "quiet_hours": "never", "quiet_days": []},
    "presets": {name: {**preset, **_OF_PRESETS.get(name, {})} for name, preset in _TABLES["presets"].items()},
}
HASTY = Settings.of(HASTY_TABLES)
_THROUGH = {**HASTY_TABLES["enforcement"], "stop_through": ["group", "workbench"]}
THROUGH = Settings.of({**HASTY_TABLES, "enforcement": _THROUGH})
_JOB = {**HASTY_TABLES["presets"]["job"], **_IMPATIENT}
STRICT = Settings.of({**HASTY_TABLES, "presets": {**HASTY_TABLES["presets"], "job": _JOB}})
RULES = SETTINGS.rules()


def changed(lot: random.Random) -> Settings:
    """Returns hasty settings with some other rules about stops, protected names, and other operators."""
    presets = dict(HASTY_TABLES["presets"])
    for name in ("notebook", "t4", "other"):
        other = {
            "stop_after": lot.choice((1, 2, 3)),
            "grace": lot.choice(("30m", "1h", "3h")),
            "when_unanswered": "remind" if lot.random() < 0.2 else "stop",
            "limit": lot.choice(("2h", "4h", "9h")),
        }
        presets[name] = {**presets[name], **{key: value for key, value in other.items() if lot.random() < 0.4}}
    names = ["*-prod", *(f"*-{number}" for number in range(12) if lot.random() < 0.1)]
    return Settings.of(
        {
            **HASTY_TABLES,
            "presets": presets,
            "enforcement": {**HASTY_TABLES["enforcement"], "protect_names": names},
            "access": {
                **HASTY_TABLES["access"],
                "operators": [f"{name}@example.com" for name in lot.sample(_PEOPLE, 3)],
            },
        }
    )


def settings_of(aim: Aim, *, has_budgets: bool) -> Settings:
    """Returns the settings of lives with this aim."""
    if aim.stops_through:
        return THROUGH
    if aim.is_strict or aim.is_hasty:
        return STRICT if aim.is_strict else HASTY
    return TIGHT if has_budgets and not aim.mutes else SETTINGS
