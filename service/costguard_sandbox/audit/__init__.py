"""The audit log of the simulated cloud: an entry for what is asked of it and what it does, on the way to a topic."""
