"""Conditions of the rows that a scope of spend counts."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Table

from costguard.model.budget import Scope


def within_scope(table: Table, scope: Scope) -> list[ColumnElement[bool]]:
    """Returns the conditions on those columns of a scope that the table has."""
    return [table.c[name] == value for name, value in scope.columns.items() if name in table.c]
