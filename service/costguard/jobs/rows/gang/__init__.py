"""Rows of gangs: their rounds, and the placement policies that keep their VMs close together."""
