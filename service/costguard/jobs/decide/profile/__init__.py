"""Reads the profile of a training: its hottest functions, its flame graph, and cures for four known patterns."""
