"""Rows of the curves of jobs."""
