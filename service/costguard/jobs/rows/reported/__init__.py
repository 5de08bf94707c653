"""Rows of what agents report: checkpoints, minutes and their bounds, and curves."""
