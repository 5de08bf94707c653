"""Signing keys, and values that a browser holds and must return unchanged."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from itsdangerous import BadSignature, URLSafeSerializer
from sqlalchemy import Connection, insert, select

from costguard.db.tables import signing_keys
from costguard.db.transaction import Database


class Seal:
    """Signs with one key for several purposes: what was sealed for one opens for no other."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, purpose: str, data: Mapping[str, Any]) -> str:
        return str(self._signer(purpose).dumps(dict(data)))

    def opened(self, purpose: str, text: str) -> dict[str, Any] | None:
        """Opens a sealed text. None: it was not sealed here, or for something else."""
        try:
            data = self._signer(purpose).loads(text)
        except (BadSignature, UnicodeError):
            return None
        return data if isinstance(data, dict) else None

    def proof(self, purpose: str, subject: str) -> str:
        """A text that only we can make of this one."""
        return hmac.new(self._key, f"{purpose}\0{subject}".encode(), hashlib.sha256).hexdigest()

    def is_proof(self, purpose: str, subject: str, text: str) -> bool:
        return hmac.compare_digest(self.proof(purpose, subject).encode(), text.encode("utf-8", "replace"))

    def _signer(self, purpose: str) -> URLSafeSerializer:
        return URLSafeSerializer(
            self._key, salt=purpose, signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256}
        )


_BYTES = 32


def key(connection: Connection, name: str, now: datetime) -> bytes:
    """The key of this name. The first call makes it, and so must be within a write."""
    stored = connection.scalar(select(signing_keys.c.value).where(signing_keys.c.name == name))
    if stored is None:
        stored = secrets.token_hex(_BYTES)
        connection.execute(insert(signing_keys).values(name=name, value=stored, made_at=now))
    return bytes.fromhex(stored)


def kept(database: Database, name: str, now: datetime) -> bytes:
    """The key of this name. Once it is made no write is needed, so a start waits for no writer."""
    with database.read() as connection:
        stored = connection.scalar(select(signing_keys.c.value).where(signing_keys.c.name == name))
    if stored is not None:
        return bytes.fromhex(stored)
    with database.write() as connection:
        return key(connection, name, now)
