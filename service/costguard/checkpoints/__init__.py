"""Where checkpoints live and which of them are complete. Satisfies the engine's `Checkpoints` by shape."""
