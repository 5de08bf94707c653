"""Decides where, when and how a job's next VM is bought: its place, its plan by a deadline, the cost of each way."""
