"""Reads the progress of jobs: their curves, and what is new in them."""
