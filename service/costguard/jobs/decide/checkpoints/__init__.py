"""Judges what a job has saved and may lose: its interval, its notice, only copies on disks, work at risk."""
