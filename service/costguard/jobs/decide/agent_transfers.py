"""Transfers as an agent reports them: what its VM downloads and publishes, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from costguard.model.data import DataTransfer, TransferState

MOST = 100  # transfers of one attempt that are kept
_MOST_TEXT = 2000  # characters
_MOST_NUMBER = 2**63 - 1
_STATES = {state.value: state for state in TransferState}


def merged(before: Sequence[DataTransfer], reported: object) -> tuple[DataTransfer, ...]:
    """Adds a heartbeat's or an exit's transfers. An agent that was started again reports its own transfers alone."""
    if not isinstance(reported, list):
        return tuple(before)
    by_key = {(one.kind, one.source, one.target): one for one in before}
    for fields in reported[:MOST]:
        if isinstance(fields, Mapping) and (one := _transfer(fields)) is not None:
            by_key[one.kind, one.source, one.target] = one
    return tuple(by_key.values())[-MOST:]


def stored(transfers: Sequence[DataTransfer]) -> list[dict[str, object]]:
    """Converts transfers for their column; `merged` reads them again."""
    return [{name: getattr(one, name) for name in DataTransfer.__slots__} for one in transfers]


def _transfer(fields: Mapping[object, object]) -> DataTransfer | None:
    state = _STATES.get(str(fields.get("state")))
    kind, source, target = (_text(fields.get(name)) for name in ("kind", "source", "target"))
    if state is None or not kind:
        return None
    return DataTransfer(
        kind=kind,
        source=source,
        target=target,
        state=state,
        bytes_done=_number(fields.get("bytes_done")),
        bytes_total=_number(fields.get("bytes_total")),
        files_done=_number(fields.get("files_done")),
        files_total=_number(fields.get("files_total")),
        bytes_per_s=_number(fields.get("bytes_per_s")),
        seconds=_number(fields.get("seconds")),
        error=_text(fields.get("error")),
    )


def _number(value: object) -> int | None:
    """Reads a number; None where it is not known. A VM may report anything."""
    if isinstance(value, float) and isfinite(value):
        value = int(value)
    return value if type(value) is int and 0 <= value <= _MOST_NUMBER else None


def _text(value: object) -> str:
    return value[:_MOST_TEXT] if isinstance(value, str) else ""
