"""Costguard: a cost guard for fleets of GPU VMs on Google Compute Engine."""
