"""Diagnoses the bottleneck of a run: the signals of each minute, and the rule that reads them.

Pure; parts travel with the agent.
"""
