"""Steps on the VM of an attempt: launch, watch, stop, restart, delete."""
