"""Shares one rendering between many readers: placeholders stand for personal parts, filled in for each request.

Their marks are random, so that no text from outside can contain one.
"""

from __future__ import annotations

import re
import secrets
import struct
import zlib
from collections.abc import Mapping
from functools import cached_property

from markupsafe import escape

from costguard.model.access import Permission, Principal, Role, Via

_RANDOM = secrets.token_hex(12)
ADDRESS, INITIAL, CSRF = (f"{name}z{_RANDOM}z" for name in ("address", "initial", "csrf"))
_PLACEHOLDERS = re.compile("|".join((ADDRESS, INITIAL, CSRF)).encode())
_READS = frozenset({Permission.READ, Permission.METRICS})
_LEVEL = 5
_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # RFC 1952, section 2.3: deflate, no name, no time
_LONGEST_STORED = 65_535  # RFC 1951, section 3.2.4


def filling(principal: Principal, csrf: str) -> Mapping[bytes, bytes]:
    """The values for a page's placeholders, escaped for HTML."""
    values = {ADDRESS: principal.address, INITIAL: principal.initial, CSRF: csrf}
    return {mark.encode(): str(escape(value)).encode() for mark, value in values.items()}


def stand_in(principal: Principal) -> Principal:
    """A stand-in with these permissions, signed in this way, and nothing personal."""
    return Principal(
        address=ADDRESS if principal.address else "",
        role=principal.role,
        permissions=principal.permissions,
        via=principal.via,
        token_id="a token" if principal.token_id else "",
        session="a session" if principal.session else "",
        is_granted=principal.is_granted,
    )


def any_reader(principal: Principal) -> Principal:
    """A stand-in that may read what this principal may, and do nothing: JSON shows nothing of the caller."""
    return Principal("", Role.VIEWER, principal.permissions & _READS, Via.TOKEN)


class SharedText:
    """A text split at its placeholders, compressed once for all readers."""

    def __init__(self, text: bytes) -> None:
        self._placeholders = _PLACEHOLDERS.findall(text)
        self._parts = _PLACEHOLDERS.split(text)
        self.has_placeholders, self.size = bool(self._placeholders), len(text)

    def filled(self, values: Mapping[bytes, bytes]) -> bytes:
        between = [values[placeholder] for placeholder in self._placeholders] + [b""]
        return b"".join(part + value for part, value in zip(self._parts, between, strict=True))

    def zipped(self, values: Mapping[bytes, bytes]) -> bytes:
        """Returns gzip: the parts as they were compressed, and between them stored blocks (RFC 1951, section 3.2.4)."""
        out, check, size = [_HEAD], 0, 0
        between = [values[placeholder] for placeholder in self._placeholders] + [b""]
        for part, packed, value in zip(self._parts, self._packed, between, strict=True):
            check = zlib.crc32(value, zlib.crc32(part, check))
            size += len(part) + len(value)
            out.append(packed)
            out += [_stored(value[at : at + _LONGEST_STORED]) for at in range(0, len(value), _LONGEST_STORED)]
        out.append(b"\x03\x00" + struct.pack("<II", check, size & 0xFFFFFFFF))  # an empty last block
        return b"".join(out)

    def pack(self) -> None:
        """Compresses it now rather than with the first request."""
        _ = self._packed

    @cached_property
    def _packed(self) -> list[bytes]:
        return [_deflated(part) for part in self._parts]


def _deflated(part: bytes) -> bytes:
    """Ends at a byte, and refers to nothing before it, so that anything may stand before and after."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH)


def _stored(value: bytes) -> bytes:
    return b"\x00" + struct.pack("<HH", len(value), len(value) ^ 0xFFFF) + value
