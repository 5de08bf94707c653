"""Measures how fast jobs advance, what they have left to do, and how long their VMs take to start."""
