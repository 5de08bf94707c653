"""Reads in a run's output why it ended, or that it only looks dead."""
