"""Backups: one archive format for both databases, written while the guard works, and checked before it is trusted."""
