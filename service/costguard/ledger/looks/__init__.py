"""Looks at projects, held against what the ledger has, and those that showed nothing new recorded together."""
