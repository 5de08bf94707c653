"""Computes what a job would cost in each place, on average, and for data that leaves a cloud. Pure."""
