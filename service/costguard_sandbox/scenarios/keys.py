"""Reads the tables of a scenario key by key, with errors that name the file, the key and the expected value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from costguard_sandbox.faults import BadFault
from costguard_sandbox.gce.faults import CloudFaults

_PART = re.compile(r"(\d+)([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MISSING: Any = object()


class ScenarioError(ValueError):
    """An invalid scenario; the text names the file, the key and the expected value."""


class Keys:
    """A table of a scenario. `done` refuses keys that were never read."""

    def __init__(
        self, values: Mapping[str, Any], where: str, prefix: str = "", siblings: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self._values = values
        self._where = where
        self._prefix = prefix
        self._siblings = siblings
        self._read: set[str] = set()

    def wrong(self, key: str, expected: str) -> ScenarioError:
        return ScenarioError(f"{self._where}: {self._prefix}{key}: expected {expected}")

    def has(self, key: str) -> bool:
        return key in self._values

    def siblings(self) -> Sequence[Mapping[str, Any]]:
        """All tables of the list that contains this one."""
        return self._siblings

    def done(self) -> None:
        unknown = sorted(self._values.keys() - self._read)
        if unknown:
            known_keys = ", ".join(sorted(self._read))
            raise self.wrong(unknown[0], f"no such key; known keys are {known_keys}")

    def _get(self, key: str, default: Any, expected: str) -> Any:
        self._read.add(key)
        if key in self._values:
            return self._values[key]
        if default is _MISSING:
            raise self.wrong(key, f"{expected}, but it is missing")
        return default

    def text(self, key: str, default: str = _MISSING) -> str:
        value = self._get(key, default, "a text")
        if not isinstance(value, str) or (default is _MISSING and not value):
            raise self.wrong(key, f"a text, not {value!r}")
        return value

    def choice(self, key: str, choices: Sequence[str], default: str = _MISSING) -> str:
        value = self._get(key, default, f"one of {', '.join(choices)}")
        if value not in choices:
            raise self.wrong(key, f"one of {', '.join(choices)}, not {value!r}")
        return str(value)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._get(key, _MISSING, "a list of texts")
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.wrong(key, f"a list of texts, not {value!r}")
        return tuple(value)

    def whole(self, key: str, default: int = _MISSING) -> int:
        value = self._get(key, default, "a whole number")
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.wrong(key, f"a whole number from 0 up, not {value!r}")
        return value

    def flag(self, key: str) -> bool:
        value = self._get(key, False, "true or false")
        if not isinstance(value, bool):
            raise self.wrong(key, f"true or false, not {value!r}")
        return value

    def duration(self, key: str, default: timedelta | None = _MISSING, *, ago: bool = False) -> Any:
        """`90s`, `2h30m`, `3d`; with `ago`, for a time in the past, as in `3d ago`."""
        expected = "a time such as '3d ago' or '2h30m ago'" if ago else "a time such as '90s', '2h30m' or '3d'"
        value = self._get(key, default, expected)
        if value is default:
            return default
        text = value if isinstance(value, str) else ""
        if ago:
            text = text[: -len(" ago")] if text.endswith(" ago") else ""
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise self.wrong(key, f"{expected}, not {value!r}")
        return timedelta(seconds=sum(int(number) * _UNITS[unit] for number, unit in parts))

    def dollars(self, key: str) -> int:
        """Nano-dollars; the amount is written as a text, so that it is never a float."""
        text = self.text(key)
        try:
            nanos = Decimal(text).scaleb(9)
        except InvalidOperation:
            raise self.wrong(key, f"an amount such as '0.35', not {text!r}") from None
        if not nanos.is_finite() or nanos <= 0 or nanos != nanos.to_integral_value():
            raise self.wrong(key, f"an amount above 0 in whole nano-dollars, not {text!r}")
        return int(nanos)

    def table(self, key: str) -> Keys:
        value = self._get(key, _MISSING, f"a table [{self._prefix}{key}]")
        if not isinstance(value, dict):
            raise self.wrong(key, f"a table, not {value!r}")
        return Keys(value, self._where, f"{self._prefix}{key}.")

    def tables(self, key: str) -> list[Keys]:
        """The tables of `[[key]]`, counted from 1 in errors."""
        value = self._get(key, [], f"tables [[{key}]]")
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.wrong(key, f"tables written as [[{key}]]")
        return [Keys(one, self._where, f"{self._prefix}{key}[{number}].", value) for number, one in enumerate(value, 1)]

    def values(self, key: str) -> dict[str, Any]:
        """A table that is taken as it is."""
        value = self._get(key, {}, "a table")
        if not isinstance(value, dict):
            raise self.wrong(key, f"a table, not {value!r}")
        return dict(value)

    def labels(self, key: str) -> dict[str, str]:
        value = self._get(key, {}, "a table of labels")
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            raise self.wrong(key, f"a table of texts, not {value!r}")
        return dict(value)

    def fault(self, key: str) -> dict[str, Any]:
        """The values of a fault, checked."""
        table = self.table(key)
        values = dict(table._values)
        try:
            CloudFaults().add(**{"kind": "", **values})
        except BadFault as wrong:
            raise self.wrong(key, f"a valid fault: {wrong}") from None
        return values
