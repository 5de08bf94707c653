"""Google Compute Engine and its price catalogue, as the engine's ports want them. No Google type leaves here."""
