"""The random part of placeholders: the same in the processes that make pages and that fill them in."""

from __future__ import annotations

import secrets


class _Marks:
    def __init__(self) -> None:
        self.random = secrets.token_hex(12)

    def adopt(self, random: str) -> None:
        """Another process's, before web/placeholders.py is imported."""
        self.random = random


MARKS = _Marks()
