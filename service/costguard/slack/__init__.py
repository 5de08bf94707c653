"""Slack, as the engine's Notifier wants it. No Slack type leaves here."""
