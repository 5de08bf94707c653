"""The secrets that sign what webhooks send: where they come from, and how they are written."""

from __future__ import annotations

from base64 import b64decode

from costguard.settings.values import is_name

PATTERN = "COSTGUARD_WEBHOOK_NAME_SECRET"
_PREFIX = "whsec_"
_BYTES = range(24, 65)
MAKE = "python3 -c 'import base64, secrets; print(\"whsec_\" + base64.b64encode(secrets.token_bytes(32)).decode())'"


def variable(name: str) -> str:
    """COSTGUARD_WEBHOOK_PAGER_DUTY_SECRET for [webhooks.pager-duty]."""
    return PATTERN.replace("NAME", name.upper().replace("-", "_"))


def variables(webhooks: object) -> dict[str, str]:
    """Of the raw table [webhooks], the variable of each one's secret by its name. Wrong names have none."""
    return {name: variable(name) for name in webhooks if is_name(name)} if isinstance(webhooks, dict) else {}


def decoded(text: str) -> tuple[bytes, ...]:
    """One secret, or two while it is changed. Raises ValueError."""
    found = tuple(b64decode(each.removeprefix(_PREFIX), validate=True) for each in text.split())
    if not 1 <= len(found) <= 2 or not all(each.startswith(_PREFIX) for each in text.split()):
        raise ValueError("not one secret or two")
    if any(len(each) not in _BYTES for each in found):
        raise ValueError("too short or too long")
    return found
