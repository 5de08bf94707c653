"""The recorded trainings: windows as an agent sends them."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from costguard.jobs.decide.profile.job_profile import JobProfile, ProfileWindow, added
from costguard_vm.profile.window import StackProfile, read_profile

RECORDED = Path(__file__).parent / "recorded"
NOW = datetime(2026, 11, 29, 20, tzinfo=UTC)


def names(kind: str) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in RECORDED.glob("*.json.gz") if document(path)["kind"] == kind)


def document(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return read


def windows_of(name: str) -> list[ProfileWindow]:
    recorded = document(RECORDED / f"{name}.json.gz")["windows"]
    profiles = [read_profile(one) or StackProfile() for one in recorded]
    minute = timedelta(minutes=1)
    return [ProfileWindow(1, number, NOW + number * minute, one) for number, one in enumerate(profiles, 1)]


def profile_of(name: str) -> JobProfile:
    profile = JobProfile()
    for window in windows_of(name):
        profile = added(profile, window)
    return profile
