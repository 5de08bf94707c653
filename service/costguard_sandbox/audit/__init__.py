"""The audit log of the simulated cloud: an entry for all that happens, on the way to a topic, and what is unread there."""
