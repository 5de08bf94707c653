"""Carries out decisions about jobs: launches, stops and deletes their VMs through the executor."""
