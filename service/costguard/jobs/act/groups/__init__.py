"""Steps on groups of VMs, which flex-start grants all at once."""
