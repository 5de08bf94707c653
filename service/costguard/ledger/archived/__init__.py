"""Charges that left the database's rows: their archives, the history's files among them, and how they go."""
