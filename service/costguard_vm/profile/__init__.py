"""Profiles of a training: its stacks, counted over short windows; they hold names of functions, never values."""
