"""Decides what comes next for a job. Pure: no clock, no database, no network."""
