"""The filters of lists of jobs: `state="JOB_STATE_RUNNING" OR create_time>"2021-05-18T00:00:00Z"`.

aiplatform.v1 of Google's API discovery (revision 20261106), customJobs.list: `display_name`, `state` and `create_time`,
comparisons, AND, OR and NOT. Parentheses are not read here.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from costguard_sandbox.gce.errors import bad_argument

_CLAUSE = re.compile(r'(?P<no>NOT )?(?P<field>display_name|state|create_time)(?P<how><=|>=|!=|=|<|>)"(?P<value>[^"]*)"')
_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FIELDS = {"display_name": "displayName", "state": "state", "create_time": "createTime"}


def matching(expression: str) -> Callable[[Mapping[str, Any]], bool]:
    """Reads a filter. Raises Refused (400) for what it cannot read."""
    if not expression:
        return lambda _: True
    groups = [[_clause(part) for part in group.split(" AND ")] for group in expression.split(" OR ")]
    return lambda shown: any(all(holds(shown) for holds in group) for group in groups)


def _clause(text: str) -> Callable[[Mapping[str, Any]], bool]:
    match = _CLAUSE.fullmatch(text.strip())
    if match is None:
        raise bad_argument(f"Invalid filter: {text}")
    field, compared = match["field"], _COMPARED[match["how"]]

    def holds(shown: Mapping[str, Any]) -> bool:
        given, wanted = shown.get(_FIELDS[field], ""), match["value"]
        if field == "create_time":
            return compared(datetime.fromisoformat(given), datetime.fromisoformat(wanted))
        return compared(given, wanted)

    return (lambda shown: not holds(shown)) if match["no"] else holds
