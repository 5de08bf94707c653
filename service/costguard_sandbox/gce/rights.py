"""The rights of the account that asks, and the APIs that are on: all of them, until one is taken away."""

from __future__ import annotations

from collections.abc import Iterable

ACCOUNT = "costguard@acme-operations.iam.gserviceaccount.com"  # of requests that name no user
SCOPES = ("https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/userinfo.email")


class Rights:
    """`place` is a project, or the name of a bucket, of a service account, or of a table PROJECT.DATASET.TABLE."""

    def __init__(self) -> None:
        self._withheld: set[tuple[str, str]] = set()
        self._disabled: set[tuple[str, str]] = set()
        self._absent: set[str] = set()
        self.scopes: tuple[str, ...] = SCOPES

    def withhold(self, place: str, permission: str) -> None:
        self._withheld.add((place, permission))

    def disable(self, project: str, api: str) -> None:
        self._disabled.add((project, api))

    def remove(self, place: str) -> None:
        """There is no such bucket, account or table any more."""
        self._absent.add(place)

    def restore(self) -> None:
        self._withheld.clear()
        self._disabled.clear()
        self._absent.clear()
        self.scopes = SCOPES

    def granted(self, place: str, names: Iterable[str]) -> list[str]:
        return [name for name in names if (place, name) not in self._withheld]

    def may(self, place: str, permission: str) -> bool:
        return (place, permission) not in self._withheld

    def is_enabled(self, project: str, api: str) -> bool:
        return (project, api) not in self._disabled

    def is_there(self, place: str) -> bool:
        return place not in self._absent

    def shown(self) -> dict[str, list[dict[str, str]]]:
        return {
            "withheld": [{"place": place, "permission": name} for place, name in sorted(self._withheld)],
            "disabled": [{"project": project, "api": api} for project, api in sorted(self._disabled)],
        }
