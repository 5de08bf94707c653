"""Takes a job: checks it, quotes it, records it, and records its cancelling."""
