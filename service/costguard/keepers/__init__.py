"""Reads from what Compute Engine says of a VM who keeps it: a group, a service of Google, another tool, a job."""
