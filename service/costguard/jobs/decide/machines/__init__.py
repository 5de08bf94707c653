"""Compares machines: what runs of one script cost on each, their peaks and prices, and the one to try next."""
