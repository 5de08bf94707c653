"""Finishing by a deadline at the least cost: policies, the plan, and their replay over recorded availability. Pure."""
