"""Decisions about jobs: where to launch, what an end means, what comes next, what is refused."""
