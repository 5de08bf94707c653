"""Finds checkpoints and judges which of them are complete. Satisfies the engine's `Checkpoints` by shape."""
