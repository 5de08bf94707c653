"""Says what a set-up needs of Google Cloud, Slack and its own computer, and what of it is there."""
