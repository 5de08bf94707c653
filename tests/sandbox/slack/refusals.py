"""Refused calls as the real client sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from slack_sdk.errors import SlackApiError


def refused(call: Callable[[], Any]) -> str:
    """The code of the error that the call ends with."""
    with pytest.raises(SlackApiError) as caught:
        call()
    return str(caught.value.response["error"])
