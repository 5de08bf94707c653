"""The sentences that say what each person understood at a command, by how it begins."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
WATCHER: Mapping[str, str] = _WORDS["watcher"]
LAUNCHER: Mapping[str, str] = _WORDS["launcher"]
