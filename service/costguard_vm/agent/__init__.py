"""The agent on a VM that Costguard launched. It travels as one file, which `costguard_vm.bundle` makes.

PROTOCOL.md describes its settings, its events, and its files on the VM.
"""
