"""Telling people: what is intended, composed, sent and edited, and what they press."""
