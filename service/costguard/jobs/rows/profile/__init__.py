"""Rows of the profiles of jobs."""
