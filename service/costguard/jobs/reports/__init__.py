"""Receives what agents report, and reads progress, curves and bounds in it."""
