"""A receiver that listens, and events to send."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.webhooks.receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().listening() as listening:
        yield listening
