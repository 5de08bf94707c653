"""Checks what a person submitted, all problems at once. Pure."""
