"""The agent on a VM that Costguard launched. It travels as one file (`bundle.py`) and needs only Python 3.8 or later.

PROTOCOL.md describes its settings, its events, and its files on the VM. Of the rest of Costguard it imports only the
rules about checkpoints and steps, which travel with it.
"""
