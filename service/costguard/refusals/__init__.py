"""Reads from an error of Google's or Slack's what happened, to what and where, and what mends it."""
