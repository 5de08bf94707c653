"""Decides about gangs: jobs whose command runs on several VMs at once, each with an attempt of its own.

Each VM is decided on as that of a job of one VM is. What is decided about all of them together is here: all or nothing
in one place, rounds that all begin from one checkpoint, and what happens to the others when one VM is lost.
"""
