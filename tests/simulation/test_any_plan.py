"""Plans that nobody thought of: hypothesis draws them, and `make soak` other, longer and more than `make test`."""

from __future__ import annotations

import os

from hypothesis import given, settings
from tests.simulation.any_plan import plans
from tests.simulation.ledgers import Ledgers
from tests.simulation.plan import Plan
from tests.simulation.run import lived

_EXAMPLES, _MOST_DAYS = (60, 5) if "COSTGUARD_OTHER_EXAMPLES" in os.environ else (3, 2)


@settings(max_examples=_EXAMPLES)
@given(plan=plans(_MOST_DAYS))
def test_no_plan_breaks_an_invariant(ledgers: Ledgers, plan: Plan) -> None:
    """No invariant breaks, whatever goes wrong, whenever, and together with whatever else."""
    assert lived(plan, ledgers.fresh()).wrong == []
