"""Settings from text, as a file holds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from costguard.errors import SettingsError
from costguard.settings import Settings, load


def read(tmp_path: Path, text: str, **environ: str) -> Settings:
    file = tmp_path / "costguard.toml"
    file.write_text(text, "utf-8")
    return load(file, environ)


def refused(tmp_path: Path, text: str, **environ: str) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, text, **environ)
    return caught.value
