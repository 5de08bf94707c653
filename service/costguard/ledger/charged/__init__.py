"""The charges of runs and storage: made when they are due, stored, and read."""
