"""The stored rows of jobs and attempts, and their events."""
