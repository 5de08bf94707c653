"""Rows of the checkpoints that were seen at jobs' locations."""
