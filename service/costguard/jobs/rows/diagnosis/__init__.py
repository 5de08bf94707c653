"""Rows of what bounds jobs."""
