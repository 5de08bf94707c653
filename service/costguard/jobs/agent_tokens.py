"""What an agent shows to speak for its attempt: nobody has to store it, and it opens nothing else."""

from __future__ import annotations

import hashlib
import hmac

KEY_NAME = "attempts"  # of the key, among those for signing


class Tokens:
    """The same key gives the same tokens, so that a VM's metadata can be made again after a restart of the guard."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, attempt_name: str) -> str:
        return hmac.new(self._key, f"attempt\0{attempt_name}".encode(), hashlib.sha256).hexdigest()

    def speaks_for(self, token: str, attempt_name: str) -> bool:
        """In a time that tells nothing about the right one."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.of(attempt_name).encode())
