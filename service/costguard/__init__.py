"""Costguard: a cost guard for fleets of GPU VMs on Google Compute Engine."""

__version__ = "0.1.0"
