"""Decides about a job's open attempts: how each goes on, when the job moves to another VM, which VM is adopted."""
