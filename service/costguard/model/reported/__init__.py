"""Values that agents report of a job's command: progress, metrics, hangs, drills and output."""
