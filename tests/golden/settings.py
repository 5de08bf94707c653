"""The settings file that `costguard config example` prints, with every key and its default, and the variables read."""

from __future__ import annotations

from collections.abc import Mapping

from costguard.settings import VARIABLES, example, setting_keys


def texts() -> Mapping[str, str]:
    keys = "\n".join(setting_keys())
    variables = "\n".join(VARIABLES)
    return {
        "settings/example.txt": example(),
        "settings/keys.txt": f"{keys}\n",
        "settings/variables.txt": f"{variables}\n",
    }
