"""Slack, behind the port Notifier. No type of Slack's leaves this room."""
