"""The databases of simulated lives: migrated and priced once for all of a worker's tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.simulation.ledgers import Ledgers


@pytest.fixture(scope="session")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledgers]:
    with closing(Ledgers(tmp_path_factory.mktemp("ledgers"))) as made:
        yield made
