"""ETags, and whether the client has the response already (RFC 9110, section 13.1.2)."""

from __future__ import annotations

import re

_TAG = re.compile(r'(?:W/)?("[^"]*")')


def is_known(tag: str, known: str) -> bool:
    """`tag` is one ETag, `known` the value of If-None-Match. Whether it is weak does not matter for reading."""
    return known.strip() == "*" or tag.removeprefix("W/") in _TAG.findall(known)
