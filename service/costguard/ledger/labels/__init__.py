"""The labels of VMs, the keeper among them: as they are, as they were, and when they changed."""
