"""An operation in Compute Engine's JSON, made into our own value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from sys import intern
from typing import Any

from costguard.gce.fields import Garbled, moment, moment_or_none, short, word
from costguard.model.observation import OperationStatus, SeenOperation

_INSTANCE_LINK = re.compile(r"zones/([^/]+)/instances/([^/]+)$")


def operation_from(project: str, raw: Mapping[str, Any]) -> SeenOperation | None:
    """One operation; None when its target is not an instance. Raises Garbled."""
    try:
        target = _INSTANCE_LINK.search(raw.get("targetLink") or "")
        if target is None:
            return None
        errors: list[dict[str, str]] = (raw.get("error") or {}).get("errors") or [{}]
        return SeenOperation(
            project=project,
            operation_id=word(str(raw.get("id") or raw["name"])),
            kind=word(raw["operationType"]),
            target_id=str(raw.get("targetId", "")),
            target_name=target[2],
            zone=intern(target[1]),
            user=str(raw.get("user", "")),
            status=OperationStatus[word(raw["status"])],
            inserted_at=moment(raw["insertTime"]),
            started_at=moment_or_none(raw.get("startTime")),
            ended_at=moment_or_none(raw.get("endTime")),
            error_code=errors[0].get("code") or _text_or_none(raw.get("httpErrorStatusCode")),
            error_message=errors[0].get("message") or _text_or_none(raw.get("httpErrorMessage")),
            status_message=_text_or_none(raw.get("statusMessage")),
        )
    except Garbled as error:
        raise Garbled(f"operation {short(raw.get('name'))}: {error}") from None
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
        name = raw.get("name") if isinstance(raw, dict) else raw
        raise Garbled(f"operation {short(name)}: {error!r}") from None


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)
