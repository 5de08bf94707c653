"""Adds up what executions of workflows cost, by the labels of their jobs and VMs."""
