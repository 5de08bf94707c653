"""Loose things bill and nothing uses them: Google is asked by turns, its answers are remembered and priced."""
