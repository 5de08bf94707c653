"""Computes what ceiling, deadline, budgets and reservation leave a job."""
