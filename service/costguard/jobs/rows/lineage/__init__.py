"""Rows of lineage: which job starts from what another one saved."""
