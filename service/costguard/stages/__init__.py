"""Data of jobs that is kept near their VMs: who fetches it, how much of it came from its source, and when it goes."""
