"""Rows of interruptions and recoveries, and of the drills that rehearse them."""
