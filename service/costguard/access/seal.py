"""What is given into a browser's hands and must come back unchanged."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from itsdangerous import BadSignature, URLSafeSerializer


class Seal:
    """Signs with one key for several purposes: what was sealed for one opens for no other."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, purpose: str, data: Mapping[str, Any]) -> str:
        return str(self._signer(purpose).dumps(dict(data)))

    def opened(self, purpose: str, text: str) -> dict[str, Any] | None:
        """None: it was not sealed here, or for something else."""
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
