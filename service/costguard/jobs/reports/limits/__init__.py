"""Reads when jobs end and where limits stand."""
