"""Finds where a job may be launched: places and what ranks them, addresses, reservations."""
