"""Plans that nobody thought of: hypothesis draws them, and `make soak` other ones than `make test`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given, settings
from tests.simulation.any_plan import plans
from tests.simulation.ledgers import Ledgers
from tests.simulation.plan import Plan
from tests.simulation.run import lived

_EXAMPLES = 60 if "COSTGUARD_OTHER_EXAMPLES" in os.environ else 6


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledgers]:
    with closing(Ledgers(tmp_path_factory.mktemp("ledgers"))) as made:
        yield made


@settings(max_examples=_EXAMPLES)
@given(plan=plans())
def test_no_plan_breaks_an_invariant(ledgers: Ledgers, plan: Plan) -> None:
    """Whatever goes wrong, whenever, and together with whatever else."""
    assert lived(plan, ledgers.fresh()).wrong == []
