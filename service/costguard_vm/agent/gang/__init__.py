"""A VM of a job of several: its rounds, what its launcher needs, and the check that the VMs reach each other."""
