"""Decides what follows when a run ends: why it ended, whether that counts, when and from where the job goes on."""
