"""An instance as Compute Engine's API gives it, from a file: `gcloud compute instances describe NAME --format json`."""

from __future__ import annotations

from typing import Any

import orjson

from costguard.errors import Invalid
from costguard.keepers.reading import VmFacts, read_keeper
from costguard.model.keeper import Keeper
from costguard.model.managed.origin import origin_of

MOST_READ = 4 << 20  # bytes: Google keeps a VM's metadata below 512 KB
_HOW = "Give one instance as the API gives it: gcloud compute instances describe NAME --zone ZONE --format json"


def read_instance(text: str, file: str) -> tuple[str, Keeper]:
    """Returns the VM's name and its keeper. Raises Invalid for what is no instance.

    Parts that are no labels or metadata count as unreadable.
    """
    if len(text) > MOST_READ:
        raise Invalid(f"{file} is longer than {MOST_READ >> 20} MiB, which no instance is.", _HOW)
    try:
        raw = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Invalid(f"{file} is no JSON: {error}.", _HOW) from None
    except (UnicodeEncodeError, RecursionError):
        raise Invalid(f"{file} is no JSON that can be read.", _HOW) from None
    if isinstance(raw, list):
        raise Invalid(f"{file} is a list of {len(raw)}, not one instance.", _HOW)
    if not isinstance(raw, dict):
        raise Invalid(f"{file} is no object.", _HOW)
    kind = raw.get("kind", "compute#instance")
    if kind != "compute#instance":
        raise Invalid(f"{file} is of the kind {str(kind)[:80]!r}, not compute#instance.", _HOW)
    labels = raw.get("labels") or {}
    name = raw.get("name")
    return str(name)[:63] if isinstance(name, str) and name.isprintable() else "this VM", read_keeper(
        VmFacts(
            {key: value for key, value in labels.items() if isinstance(value, str)} if isinstance(labels, dict) else {},
            _origin(raw.get("metadata")) if isinstance(labels, dict) else None,
            _last_part(raw.get("zone")),
            tuple(tag for tag in _list(_part(raw.get("tags"), "items")) if isinstance(tag, str)),
            tuple(
                email
                for account in _list(raw.get("serviceAccounts"))
                if isinstance(email := _part(account, "email"), str)
            ),
        )
    )


def _origin(metadata: Any) -> dict[str, str] | None:
    """The items that show a keeper; None where there are no metadata, as Google gives them of every VM."""
    items = metadata.get("items", []) if isinstance(metadata, dict) else None
    return origin_of(item for item in items if isinstance(item, dict)) if isinstance(items, list) else None


def _part(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _last_part(value: Any) -> str:
    return value.rpartition("/")[2] if isinstance(value, str) else ""
