"""Rows of limits: what is in use and who waits, and the budgets that hold jobs."""
