"""Watches the checkpoints of jobs, and orders their interval."""
