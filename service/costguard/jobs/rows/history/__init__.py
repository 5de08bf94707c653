"""Reads what the fleet's past says of places: lifetimes, stockouts, waits, starts, and Google's advice."""
